//go:build linux

package nsrun_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func init() {
	insides["dead mount"], insides["dead run"], insides["dead use"] = deadMount, deadRun, deadUse
}

// deadName begins the names that the file system of serveFiles never answers about.
const deadName = "dead"

// serveFiles serves a FUSE file system that has nothing but its root directory.
func serveFiles(fd int) {
	b := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, b)
		if err != nil || n < 40 {
			return
		}
		const lookup = 1
		if binary.NativeEndian.Uint32(b[4:]) == lookup && strings.HasPrefix(string(b[40:n]), deadName) {
			continue
		}
		if answer := testenv.AnswerFUSE(b[:n]); answer != nil {
			_, _ = unix.Write(fd, answer)
		}
	}
}

// besideFUSE mounts a file system of FUSE at args[0], private to this process's mount namespace, has serve answer for
// it, and returns a command that runs this program there again, as a helper with these arguments.
func besideFUSE(args []string, helper string, serve func(fd int)) (*exec.Cmd, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	fd, err := testenv.MountFUSE(args[0])
	if err != nil {
		return nil, err
	}
	go serve(fd)
	exe, _ := os.Executable()
	c := exec.Command(exe, args...)
	c.Env = append(os.Environ(), insideEnv+"="+helper)
	return c, nil
}

// deadMount mounts a file system in a mount namespace of its own, and has another process run a command there. Its
// arguments are the directory and those of that process. A thread that looks at a dead name can only end with the file
// system, so the two are different processes.
func deadMount(args []string) int {
	c, err := besideFUSE(args, "dead run", serveFiles)
	if err != nil {
		fmt.Println("mount:", err)
		return 1
	}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	stuck := time.AfterFunc(testenv.Patience, func() { _ = unix.Unmount(args[0], unix.MNT_FORCE|unix.MNT_DETACH) })
	lines := bufio.NewScanner(out)
	if lines.Scan() && lines.Text() != "" {
		fmt.Println(lines.Text(), stuck.Stop())
	}
	_ = unix.Unmount(args[0], unix.MNT_FORCE|unix.MNT_DETACH)
	_ = c.Wait()
	return 0
}

// deadRun runs a command that uses a dead name. It prints one line when Run has returned.
func deadRun(args []string) int {
	notify.Patience = 20 * time.Millisecond
	backend, err := nsrun.ParseBackend(args[1])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	exe, _ := os.Executable()
	r := nsrun.NewRunner(nsrun.Config{
		Project: args[2], Backend: backend, After: nsrun.Discard, Grace: time.Millisecond,
		Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: args[0]}, {Mode: nsrun.ReadOnly, Pattern: exe}},
	})
	for _, name := range []string{"name", deadName} {
		ctx, cancel := context.WithCancel(context.Background())
		q := nsrun.Request{Args: []string{exe, args[1], filepath.Join(args[0], name)}, Env: []string{insideEnv + "=dead use", "GORACE=atexit_sleep_ms=0"}}
		if name == deadName {
			q.Stdout = whenSaid{"calls", func() { time.AfterFunc(50*time.Millisecond, cancel) }}
		}
		res, err := r.Run(ctx, q)
		cancel()
		fmt.Printf("%v: %s; ", err, strings.ReplaceAll(string(res.Stdout.Bytes()), "\n", ", "))
	}
	fmt.Println()
	nsexec.Shutdown()
	return 0
}

// whenSaid calls f when a command writes a text.
type whenSaid struct {
	text string
	f    func()
}

func (w whenSaid) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.text) {
		w.f()
	}
	return len(b), nil
}

// deadUse makes a call on a name that nsrun looks at in the command's place, and then, from another thread, one on a
// file of the project.
func deadUse(args []string) int {
	done := make(chan error, 1)
	if args[0] == "native" {
		go func() { done <- unix.Rename(args[1], "y") }()
	} else {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		thread := make(chan int)
		go func() {
			runtime.LockOSThread()
			thread <- unix.Gettid()
			done <- unix.Connect(fd, &unix.SockaddrUnix{Name: args[1]})
		}()
		call, at := fmt.Sprintf("%d ", unix.SYS_CONNECT), fmt.Sprintf("/proc/self/task/%d/syscall", <-thread)
		if !testenv.Poll(testenv.Patience, func() bool {
			now, _ := os.ReadFile(at)
			return len(done) > 0 || strings.HasPrefix(string(now), call)
		}) {
			fmt.Println("it does not connect")
		}
		fmt.Println("chmod:", os.Chmod("a", 0o600))
	}
	fmt.Println("calls")
	fmt.Println(<-done)
	return 0
}

// TestDeadFiles: where a command uses a file on a file system that does not answer, it ends when it is to end, and
// Run returns. Without namespaces the command's other calls go on meanwhile.
func TestDeadFiles(t *testing.T) {
	testenv.NeedRoot(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		testenv.Skip(t, "fuse", err.Error())
	}
	for backend, want := range map[string]string{
		"native":   "<nil>: calls, invalid cross-device link, ; context canceled: calls, ;  true\n",
		"landlock": "<nil>: chmod: <nil>, calls, no such file or directory, ; context canceled: chmod: <nil>, calls, ;  true\n",
	} {
		t.Run(backend, func(t *testing.T) {
			if backend == "landlock" {
				needLandlock(t)
			}
			dir := place(t, "a")
			testenv.Tree(t, dir, "mnt/")
			c := exec.Command(self(t), filepath.Join(dir, "mnt"), backend, filepath.Join(dir, "p"))
			c.Env = append(os.Environ(), insideEnv+"=dead mount")
			c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
			c.Stderr = os.Stderr
			out, err := c.Output()
			if string(out) != want || err != nil {
				t.Errorf("%q, %v, want %q", out, err, want)
			}
		})
	}
}
