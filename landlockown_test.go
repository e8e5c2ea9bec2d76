//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// ownDeeds are changes of a command's own files, all of which must work.
var ownDeeds = []assault{
	{"a mode", func(*prey) error {
		return changes(fresh("m"), func(st *unix.Stat_t) bool { return st.Mode&0o7777 == 0o700 }, os.Chmod("m", 0o700))
	}},
	{"a mode by a descriptor", func(*prey) error {
		f, err := os.Create(fresh("m"))
		if err != nil {
			return err
		}
		defer f.Close()
		return changes("m", func(st *unix.Stat_t) bool { return st.Mode&0o7777 == 0o711 }, f.Chmod(0o711))
	}},
	{"a mode by a descriptor's link", func(*prey) error {
		fd, err := unix.Open(fresh("m"), unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return changes("m", func(st *unix.Stat_t) bool { return st.Mode&0o7777 == 0o701 }, unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o701))
	}},
	{"a mode from a directory", func(*prey) error {
		_ = os.Mkdir("dir", 0o755)
		dir, err := unix.Open("dir", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return changes(fresh("dir/m"), func(st *unix.Stat_t) bool { return st.Mode&0o7777 == 0o640 }, unix.Fchmodat(dir, "m", 0o640, 0))
	}},
	{"a mode through a link", func(*prey) error {
		_ = os.Remove("l")
		return changes(fresh("m"), func(st *unix.Stat_t) bool { return st.Mode&0o7777 == 0o600 }, errors.Join(os.Symlink("m", "l"), os.Chmod("l", 0o600)))
	}},
	{"a name in another directory", func(*prey) error {
		_ = os.Mkdir("dir", 0o755)
		return errors.Join(os.Rename(fresh("m"), "dir/n"), os.Rename("dir/n", "n"))
	}},
	{"a link in another directory", func(*prey) error {
		_ = os.Mkdir("dir", 0o755)
		_ = os.Remove("dir/hard")
		return os.Link(fresh("m"), "dir/hard")
	}},
	{"a file from the directory for temporary ones", func(*prey) error {
		return os.Rename(fresh(filepath.Join(os.TempDir(), "m")), "n")
	}},
	{"a server", func(*prey) error {
		for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp", ":0"}, {"tcp", "localhost:0"}} {
			l, err := net.Listen(at[0], at[1])
			if err != nil {
				return fmt.Errorf("%v: %w", at, err)
			}
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write([]byte("hello"))
					_ = c.Close()
				}
			}()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			for range 3 {
				c, err := net.Dial("tcp", "localhost:"+port)
				if err != nil {
					return fmt.Errorf("%v: %w", at, err)
				}
				if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
					return fmt.Errorf("%v: %q, %v", at, b, err)
				}
				_ = c.Close()
			}
			_ = l.Close()
			if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				_ = c.Close()
				return errors.New("it goes on")
			}
		}
		return nil
	}},
	{"an owner", func(*prey) error { return os.Chown(fresh("m"), os.Getuid(), -1) }},
	{"a link's owner", func(*prey) error {
		_ = os.Remove("l")
		return errors.Join(os.Symlink("nowhere", "l"), os.Lchown("l", os.Getuid(), os.Getgid()))
	}},
	{"times", func(*prey) error {
		at := time.Unix(5, 7)
		return changes(fresh("m"), func(st *unix.Stat_t) bool { return st.Mtim == unix.NsecToTimespec(at.UnixNano()) }, os.Chtimes("m", at, at))
	}},
	{"times by a descriptor", func(*prey) error {
		fd, err := unix.Open(fresh("m"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return changes("m", func(st *unix.Stat_t) bool { return st.Mtim.Sec == 9 }, unix.Futimes(fd, []unix.Timeval{{Sec: 9}, {Sec: 9}}))
	}},
	{"times of microseconds", func(*prey) error {
		return changes(fresh("m"), func(st *unix.Stat_t) bool { return st.Mtim.Sec == 3 && st.Mtim.Nsec == 4000 }, unix.Utimes("m", []unix.Timeval{{}, {Sec: 3, Usec: 4}}))
	}},
	{"times to now", func(*prey) error {
		return errors.Join(os.Chtimes(fresh("m"), time.Unix(5, 0), time.Unix(5, 0)),
			changes("m", func(st *unix.Stat_t) bool { return time.Since(time.Unix(st.Mtim.Unix())) < time.Minute },
				call(unix.SYS_UTIMENSAT, ^uintptr(99), uintptr(unsafe.Pointer(unsafe.StringData("m\x00"))), 0, 0)))
	}},
}

// changes reports whether a file is what it was to become.
func changes(name string, is func(*unix.Stat_t) bool, err error) error {
	var st unix.Stat_t
	if err == nil {
		err = unix.Lstat(name, &st)
	}
	if err == nil && !is(&st) {
		err = fmt.Errorf("%s is %+v", name, st)
	}
	return err
}

// TestLandlockOwnFiles: a command without namespaces changes modes, owners and times of its own files as others do.
func TestLandlockOwnFiles(t *testing.T) {
	needLandlock(t)
	dir := place(t, "a")
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p"), Backend: nsrun.LandlockBackend, After: nsrun.Discard}))
	for _, a := range ownDeeds {
		if got := output(t, r, insideRequest(t, "assault", "{}", a.name)); got != a.name+": worked\n" {
			t.Errorf("%s: %s", a.name, got)
		}
	}
	// It has no privileges: what others own stays theirs, and nothing lends the caller's rights.
	for _, script := range []string{"chown 1 a", "chgrp 1 a", "chmod u+s a"} {
		if got := sh(t, r, script+" 2>&1"); !strings.Contains(got, "exit code: 1") {
			t.Errorf("%s: %s", script, got)
		}
	}
}

// insideTakeover listens on a port, leaves it, and connects to it when the file go is there.
func insideTakeover([]string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	at := l.Addr().String()
	if c, err := net.Dial("tcp", at); err != nil {
		fmt.Println("its own server: " + err.Error())
	} else {
		_ = c.Close()
	}
	_ = l.Close()
	_ = errors.Join(os.WriteFile("at.new", []byte(at), 0o644), os.Rename("at.new", "at"))
	if !testenv.Poll(testenv.Patience, func() bool { _, err = os.Stat("go"); return err == nil }) {
		fmt.Println(err)
		return 1
	}
	if _, err = net.Dial("tcp", at); err == nil {
		fmt.Println("reached")
		return 0
	}
	fmt.Println(err)
	return 0
}

// TestLandlockTakeover: a port that a command has left is somebody else's, who listens there later.
func TestLandlockTakeover(t *testing.T) {
	needLandlock(t)
	dir := place(t)
	project := filepath.Join(dir, "p")
	for backend, want := range map[nsrun.Backend]bool{nsrun.LandlockBackend: false, nsrun.AutoBackend: true} {
		for _, name := range []string{"at", "go"} {
			_ = os.Remove(filepath.Join(project, name))
		}
		c := shown(t, nsrun.Config{Project: project, Mode: nsrun.Direct, Backend: backend})
		q := insideRequest(t, "takeover")
		if want { // the control, with the host's network
			c.Approver, q.Network = yes{}, true
		}
		r, said := runner(t, c), make(chan string)
		go func() { said <- output(t, r, q) }()
		testenv.Eventually(t, "the port", func() bool { return content(project, "at") != "-" })
		l, err := net.Listen("tcp", content(project, "at"))
		if err != nil {
			t.Fatal(err)
		}
		testenv.Tree(t, project, "go")
		if got := <-said; (got == "reached\n") != want {
			t.Errorf("%s: %s", backend, got)
		}
		_ = l.Close()
	}
}
