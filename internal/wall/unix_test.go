//go:build linux

package wall

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// listener makes a unix socket that listens, bound to a name; without s nobody knows of it.
func listener(t *testing.T, s *sockets, name string) (ino uint64, fd sys.FD) {
	t.Helper()
	n, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(n, &unix.SockaddrUnix{Name: name})
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(n, &st)
	}
	if err == nil && s == nil {
		err = unix.Listen(n, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	fd = sys.FD(n)
	t.Cleanup(func() { fd.Close() })
	if s != nil {
		copied, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.keep(st.Ino, sys.FD(copied))
		if e := s.listenUnix(st.Ino, sys.FD(copied), 1); e != 0 {
			t.Fatal(e)
		}
	}
	return st.Ino, fd
}

// TestOwns: a file is a command's while a socket of the command's listens on it, and no longer.
func TestOwns(t *testing.T) {
	testenv.Leaks(t)
	t.Chdir(testenv.Dir(t))
	var s sockets
	defer s.close()
	ino, fd := listener(t, &s, "own")
	listener(t, nil, "theirs")
	testenv.Tree(t, ".", "file", "l => own")
	owns := func(name string) bool {
		t.Helper()
		n, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(n)
		return s.owns(sys.FD(n))
	}
	for name, want := range map[string]bool{"own": true, "l": true, "theirs": false, "file": false, ".": false} {
		if got := owns(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The same number of a file on another file system is another file.
	known := s.files[ino]
	other := known
	other.minor++
	if s.files[ino] = other; owns("own") {
		t.Error("on another file system")
	}
	s.files[ino] = known
	// It has ended. Whoever gets its file's number then is somebody else: here it is the file itself.
	if !owns("own") {
		t.Error("the control: the socket does not count as the command's")
	}
	if fd.Close(); owns("own") {
		t.Error("a closed socket counts as the command's")
	}
	if len(s.files) != 0 {
		t.Errorf("remembered: %v", s.files)
	}
}

// listenEnv makes this program a server of the host, at the unix socket that it names, until its standard input ends.
const listenEnv = "NSRUN_TEST_LISTEN"

func listenOutside(at string) {
	if _, err := net.Listen("unix", at); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listens")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestSameNumber: a server of the host in another subvolume can have a file with the number of the command's own. The
// command is not connected to it, not even where it may make files. The control is that the kernel connects.
func TestSameNumber(t *testing.T) {
	testenv.Leaks(t)
	t.Chdir(testenv.Dir(t))
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), listenEnv+"=theirs")
	if line, err := bufio.NewReader(testenv.Background(t, c)).ReadString('\n'); line != "listens\n" {
		t.Fatalf("%s%v", line, err)
	}
	writes := true
	d := Deputy{May: func(string) bool { return writes }}
	defer d.sockets.close()
	listener(t, &d.sockets, "own")
	file := func(name string) sys.FD {
		n, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return sys.FD(n)
	}
	own := file("own")
	defer own.Close()
	if !d.own(own) {
		t.Error("the command's own socket is not")
	}
	if writes = false; d.own(own) {
		t.Error("a file is the command's where it may make none")
	}
	for name, want := range map[string]syscall.Errno{"own": 0, "theirs": syscall.ECONNREFUSED} {
		to := &unix.SockaddrUnix{Name: name}
		connect := func(connect func(fd sys.FD) syscall.Errno) (e syscall.Errno, sends bool) {
			n, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			fd := sys.FD(n)
			defer fd.Close()
			e = connect(fd)
			return e, unix.Sendto(n, []byte("x"), unix.MSG_NOSIGNAL, nil) == nil
		}
		if e, sends := connect(func(fd sys.FD) syscall.Errno { return errnoOf(unix.Connect(int(fd), to)) }); e != 0 || !sends {
			t.Errorf("the control: %s: %v, %v", name, e, sends)
		}
		e, sends := connect(func(fd sys.FD) syscall.Errno { _, e := d.sockets.attemptOwn(fd, to); return e })
		if e != want || sends != (want == 0) {
			t.Errorf("%s: %v, %v", name, e, sends)
		}
	}
}

// TestManyConnect: where too many connections are waited for already, nothing stays open of the next one.
func TestManyConnect(t *testing.T) {
	testenv.Leaks(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var s sockets
	defer s.close()
	const ino = 1
	s.keep(ino, sys.FD(fds[0]))
	for i := range MaxWaiting {
		s.pending[ino+1+uint64(i)] = &dial{fd: sys.None}
	}
	s.connectFile(notify.Listener(sys.None), told(unix.SYS_CONNECT), ino, sys.FD(fds[1]))
	if _, ok := s.idle[ino]; !ok || len(s.pending) != MaxWaiting {
		t.Error("one connection too many waits")
	}
}

// TestListensNowhere: a socket without a name in a directory does not listen.
func TestListensNowhere(t *testing.T) {
	testenv.Leaks(t)
	for _, at := range []unix.Sockaddr{nil, &unix.SockaddrUnix{Name: "@nsrun-test-" + filepath.Base(t.TempDir())}} {
		n, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil && at != nil {
			err = unix.Bind(n, at)
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(n, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		fd := sys.FD(n)
		var s sockets
		if e := s.listenUnix(st.Ino, fd, 1); e != syscall.EINVAL {
			t.Errorf("%v: %v", at, e)
		}
		if at != nil && unix.Listen(n, 1) != nil {
			t.Error("the control: the kernel does not have it listen")
		}
		fd.Close()
	}
}

// TestNames: only what is directly in a directory is answered there.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"/dev/pts/0": true, "/dev/pts/12": true, "/dev/pts/": false, "/dev/pts/ptmx": false, "/dev/pts/01": false, "/dev/pts/+1": false,
		"/dev/pts/-1": false, "/dev/pts/1/": false, "/dev/pts/../pts/1": false, "/dev/pts/99999999999": false, "dev/pts/1": false,
	} {
		if _, ok := terminal(name); ok != want {
			t.Errorf("terminal %s: %v", name, ok)
		}
	}
	for name, want := range map[string]bool{
		"/dev/shm/x": true, "/dev/shm/sem.x": true, "/dev/shm/": false, "/dev/shm": false, "/dev/shm/.": false, "/dev/shm/..": false,
		"/dev/shm/a/b": false, "/dev/shmx": false, "/dev//shm/x": false,
	} {
		if _, ok := shared(name); ok != want {
			t.Errorf("shared %s: %v", name, ok)
		}
	}
	d := Deputy{Temp: "/t", Seen: func(path string) bool { return path == "/var/tmp" }}
	for name, want := range map[string]bool{"/tmp": true, "/tmp/": true, "/var/tmp": false, "/tmp/x": false, "/tmpx": false, "/tmp/..": false, "": false} {
		if got := d.temporary(name); got != want {
			t.Errorf("temporary %s: %v", name, got)
		}
	}
}

// TestMemories: names are links to memory, a few at most.
func TestMemories(t *testing.T) {
	testenv.Leaks(t)
	var s names
	defer s.close()
	for i := range maxNames + 1 {
		fd, e := s.openMemory(strconv.Itoa(i), unix.O_CREAT|unix.O_EXCL)
		fd.Close()
		if want := i == maxNames; (e == syscall.ENOSPC) != want || (e != 0) != want {
			t.Fatalf("%d: %v", i, e)
		}
	}
	for base := range s.memory {
		if e := s.link(base, "other"); e != syscall.ENOSPC {
			t.Errorf("one more name: %v", e)
		}
		if e := s.remove(base); e != 0 {
			t.Error(e)
		}
		if e := s.link(base, "other"); e != syscall.ENOENT {
			t.Errorf("a link to a removed name: %v", e)
		}
		break
	}
}
