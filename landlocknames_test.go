//go:build linux

package nsrun_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// Sockets, terminals and shared memory of a command without namespaces are in places where others have theirs, too.

func init() {
	insides["names"] = insideNames
	ownDeeds = append(ownDeeds,
		assault{"a unix server", func(*prey) error {
			_ = os.Mkdir("dir", 0o755)
			return errors.Join(serves("unix", "u"), serves("unixpacket", "dir/u"), serves("unix", "./dir/../v"))
		}},
		assault{"messages of a pair", func(*prey) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			b := make([]byte, 9)
			err = errors.Join(unix.Send(pair[0], []byte("one"), 0), unix.Send(pair[0], []byte("two"), 0))
			if n, rerr := unix.Read(pair[1], b); err != nil || rerr != nil || string(b[:n]) != "one" {
				return fmt.Errorf("%q, %w", b[:n], errors.Join(err, rerr))
			}
			return nil
		}},
		assault{"a terminal", func(*prey) error {
			first, number, err := newTerminal()
			if err != nil {
				return err
			}
			defer unix.Close(first)
			second, err := unix.Open("/dev/pts/"+strconv.Itoa(number), unix.O_RDWR|unix.O_NOCTTY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(second)
			if _, err := unix.Write(second, []byte("hello")); err != nil {
				return err
			}
			b := make([]byte, 9)
			if n, err := unix.Read(first, b); err != nil || string(b[:n]) != "hello" {
				return fmt.Errorf("%q, %w", b[:n], err)
			}
			return nil
		}},
		assault{"shared memory with a name", func(*prey) error {
			name := "/dev/shm/nsrun-test-own-" + strconv.Itoa(os.Getpid())
			second := name + "-other"
			fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.Write(fd, []byte("shared"))
			again, oerr := unix.Open(name, unix.O_RDWR, 0)
			b := make([]byte, 9)
			n, rerr := unix.Read(again, b)
			if err := errors.Join(err, oerr, rerr); err != nil || string(b[:n]) != "shared" {
				return fmt.Errorf("%q, %w", b[:n], err)
			}
			_ = unix.Close(again)
			if _, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600); err != unix.EEXIST {
				return fmt.Errorf("once more: %w", err)
			}
			link := func(from, to string) error {
				return call(unix.SYS_LINKAT, ^uintptr(99), textOf(from), ^uintptr(99), textOf(to), 0)
			}
			if oldLink != 0 {
				link = func(from, to string) error { return call(oldLink, textOf(from), textOf(to)) }
			}
			if err := errors.Join(link(name, second), removes(name), removes(second)); err != nil {
				return err
			}
			if _, err := unix.Open(name, unix.O_RDWR, 0); err != unix.ENOENT {
				return fmt.Errorf("removed: %w", err)
			}
			return nil
		}},
		assault{"a temporary file in /tmp", func(*prey) error {
			fd, err := unix.Open("/tmp", unix.O_RDWR|unix.O_TMPFILE, 0o600)
			if err != nil {
				return err
			}
			_, err = unix.Write(fd, []byte("x"))
			return errors.Join(err, unix.Close(fd))
		}},
	)
}

func textOf(name string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(name + "\x00"))) }

// removes is unlink(3) as C libraries have it.
func removes(name string) error {
	if oldUnlink != 0 {
		return call(oldUnlink, textOf(name))
	}
	return unix.Unlink(name)
}

func newTerminal() (first, number int, err error) {
	if first, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return -1, 0, err
	}
	number, err = unix.IoctlGetInt(first, unix.TIOCGPTN)
	return first, number, errors.Join(err, unix.IoctlSetPointerInt(first, unix.TIOCSPTLCK, 0))
}

// serves has a unix server say its name to whom connects.
func serves(network, at string) error {
	l, err := net.Listen(network, at)
	if err != nil {
		return err
	}
	defer l.Close()
	go greet(l, at)
	if got := l.Addr().String(); got != at {
		return fmt.Errorf("it is at %s", got)
	}
	c, err := net.Dial(network, at)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 200)
	if n, err := c.Read(b); err != nil || string(b[:n]) != at {
		return fmt.Errorf("%q, %w", b[:n], err)
	}
	return nil
}

func greet(l net.Listener, text string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// theirs is what others have.
type theirs struct {
	Terminal int    // its number
	Shared   string // in /dev/shm
	Temp     string // in /tmp
}

type nameAssault struct {
	name string
	try  func(*theirs) error
}

var nameAssaults = []nameAssault{
	{"connect in the project", func(*theirs) error { return reaches("theirs/s") }},
	{"connect through a link", func(*theirs) error { return errors.Join(relink("theirs", "l"), reaches("l/s")) }},
	{"connect to another name", func(*theirs) error {
		_ = os.Remove("hard")
		return errors.Join(os.Link("theirs/s", "hard"), reaches("hard"))
	}},
	{"connect to what is exchanged", func(*theirs) error {
		_ = os.MkdirAll("own", 0o755)
		l, err := net.Listen("unix", "own/s")
		if err != nil {
			return err
		}
		defer l.Close()
		go greet(l, "own")
		stop, exchanged := make(chan struct{}), make(chan struct{}, 1)
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				_ = relink([]string{"own", "theirs"}[i%2], "swapped")
				select {
				case <-stop:
					return
				case exchanged <- struct{}{}:
				default:
				}
			}
		}()
		for range 300 {
			<-exchanged // on a busy machine this goroutine could be alone for 300 tries
			if err = reaches("swapped/s"); err == nil {
				return nil
			}
		}
		return err
	}},
	{"listen on an abstract name", func(*theirs) error {
		l, err := net.Listen("unix", "@nsrun-test-"+strconv.Itoa(os.Getpid()))
		if err == nil {
			_ = l.Close()
		}
		return err
	}},
	{"open a terminal", func(o *theirs) error { return opens("/dev/pts/" + strconv.Itoa(o.Terminal)) }},
	{"open a terminal, having one", func(o *theirs) error {
		if _, _, err := newTerminal(); err != nil {
			return fmt.Errorf("BUG: %w", err)
		}
		return opens("/dev/pts/" + strconv.Itoa(o.Terminal))
	}},
	{"open a terminal by another path", func(o *theirs) error { return opens("/dev/pts/../pts/" + strconv.Itoa(o.Terminal)) }},
	{"open shared memory", func(o *theirs) error { return opens(o.Shared) }},
	{"open shared memory by another path", func(o *theirs) error { return opens("/dev//shm/" + filepath.Base(o.Shared)) }},
	{"read shared memory", func(o *theirs) error { return read(o.Shared) }},
	{"open a temporary file", func(o *theirs) error { return opens(o.Temp) }},
	{"remove shared memory", func(o *theirs) error { return removes(o.Shared) }},
	{"remove a temporary file", func(o *theirs) error { return removes(o.Temp) }},
}

// relink makes a symbolic link, in the place of one that is there.
func relink(to, name string) error {
	return errors.Join(os.Symlink(to, name+".new"), os.Rename(name+".new", name))
}

func opens(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// reaches connects to a unix socket, and fails where it is not theirs.
func reaches(name string) error {
	c, err := net.Dial("unix", name)
	if err != nil {
		return err
	}
	defer c.Close()
	if b, err := io.ReadAll(c); err != nil || string(b) != "theirs" {
		return fmt.Errorf("%q, %w", b, err)
	}
	return nil
}

func insideNames(args []string) int {
	var o theirs
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, a := range nameAssaults {
		if err := a.try(&o); err != nil {
			fmt.Printf("%s: failed: %v\n", a.name, err)
		} else {
			fmt.Printf("%s: worked\n", a.name)
		}
	}
	return 0
}

// TestLandlockOthersNames: a command cannot use other processes' sockets in the project, terminals, shared memory and
// temporary files.
func TestLandlockOthersNames(t *testing.T) {
	needLandlock(t)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "theirs/")
	project := filepath.Join(dir, "p")
	l, err := net.Listen("unix", filepath.Join(project, "theirs/s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go greet(l, "theirs")
	first, number, err := newTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(first)
	o := theirs{Terminal: number}
	for at, path := range map[string]*string{"/dev/shm": &o.Shared, "/tmp": &o.Temp} {
		f, err := os.CreateTemp(at, "nsrun-test-theirs-*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(f.Name())
		_, err = f.WriteString("theirs")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		*path = f.Name()
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t, shown(t, nsrun.Config{Project: project, Mode: nsrun.Direct, Backend: nsrun.LandlockBackend}))
	got := strings.Split(output(t, r, insideRequest(t, "names", string(text))), "\n")
	if content(o.Shared) != "theirs" || content(o.Temp) != "theirs" {
		t.Error("they were changed")
	}
	outside := strings.Split(natively(t, project, "names", string(text)), "\n")
	for i, a := range nameAssaults {
		if i >= len(got) || !strings.HasPrefix(got[i], a.name+": failed: ") || strings.Contains(got[i], "BUG") {
			t.Errorf("%s: %q", a.name, got)
		}
		if outside[i] != a.name+": worked" {
			t.Errorf("the control: %s", outside[i])
		}
	}
}
