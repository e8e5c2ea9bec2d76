//go:build linux

package broker_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
)

// helpLocal connects unix and netlink sockets to all kinds of places below /mnt, which is its own.
func helpLocal([]string) int {
	must(0, os.MkdirAll("/mnt/d/e", 0o755))
	must(0, os.Chdir("/mnt/d"))
	listen := func(kind int, at string, backlog int) int {
		fd := must(unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0))
		must(0, unix.Bind(fd, &unix.SockaddrUnix{Name: at}))
		if kind != unix.SOCK_DGRAM {
			must(0, unix.Listen(fd, backlog))
		}
		return fd
	}
	listen(unix.SOCK_STREAM, "/mnt/s", 100)
	listen(unix.SOCK_SEQPACKET, "/mnt/d/p", 100)
	listen(unix.SOCK_DGRAM, "/mnt/d/e/g", 0)
	listen(unix.SOCK_STREAM, "@name", 100)
	listen(unix.SOCK_STREAM, "/mnt/closed", 100)
	must(0, os.Chmod("/mnt/closed", 0))
	must(0, os.Mkdir("/mnt/dark", 0o755))
	listen(unix.SOCK_STREAM, "/mnt/dark/s", 100)
	must(0, os.Chmod("/mnt/dark", 0))
	must(0, os.Symlink("/mnt/s", "/mnt/d/abs"))
	must(0, os.Symlink("../s", "/mnt/d/rel"))
	must(0, os.Symlink("nowhere", "/mnt/d/dangling"))
	must(0, os.WriteFile("/mnt/file", nil, 0o644))
	gone := listen(unix.SOCK_STREAM, "/mnt/gone", 1)
	_ = unix.Close(gone)
	for _, c := range []struct {
		kind int
		at   string
	}{
		{unix.SOCK_STREAM, "/mnt/s"}, {unix.SOCK_STREAM, "../s"}, {unix.SOCK_STREAM, "abs"}, {unix.SOCK_STREAM, "rel"}, {unix.SOCK_STREAM, "./../d/../s"},
		{unix.SOCK_STREAM, "/../../mnt/s"}, {unix.SOCK_STREAM, "dangling"}, {unix.SOCK_STREAM, "/mnt/none"}, {unix.SOCK_STREAM, "/mnt/file"},
		{unix.SOCK_STREAM, "/mnt/file/s"}, {unix.SOCK_STREAM, "/mnt/closed"}, {unix.SOCK_STREAM, "/mnt/dark/s"}, {unix.SOCK_STREAM, "/mnt/gone"},
		{unix.SOCK_STREAM, "p"}, {unix.SOCK_SEQPACKET, "p"}, {unix.SOCK_DGRAM, "e/g"}, {unix.SOCK_STREAM, "@name"}, {unix.SOCK_STREAM, "@other"},
		{unix.SOCK_STREAM, "/mnt/" + strings.Repeat("x", 103)},
	} {
		fd := must(unix.Socket(unix.AF_UNIX, c.kind|unix.SOCK_CLOEXEC, 0))
		say(c.at, unix.Connect(fd, &unix.SockaddrUnix{Name: c.at}))
		if flags := must(unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)); flags&unix.O_NONBLOCK != 0 {
			say("it does not wait any more", unix.EAGAIN)
		}
		if c.kind == unix.SOCK_STREAM {
			say("again", unix.Connect(fd, &unix.SockaddrUnix{Name: c.at}))
		}
		_ = unix.Close(fd)
	}
	datagram := must(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
	say("datagram", unix.Connect(datagram, &unix.SockaddrUnix{Name: "e/g"}))
	raw := func(fd int, p unsafe.Pointer, n uintptr) error {
		if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(p), n); e != 0 {
			return e
		}
		return nil
	}
	var none unix.RawSockaddrAny
	say("disconnect", raw(datagram, unsafe.Pointer(&none), 2))
	none.Addr.Family = unix.AF_UNIX
	say("no name", raw(datagram, unsafe.Pointer(&none), 2))
	say("too long", raw(datagram, unsafe.Pointer(&none), 112))
	// A listener that has no room: who does not wait is told, who waits gets in when it has.
	full := listen(unix.SOCK_STREAM, "/mnt/full", 0)
	first := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	say("first", unix.Connect(first, &unix.SockaddrUnix{Name: "/mnt/full"}))
	second := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))
	say("no room", unix.Connect(second, &unix.SockaddrUnix{Name: "/mnt/full"}))
	third := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	must(0, unix.SetsockoptTimeval(third, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 50_000}))
	say("for a while", connect(third, &unix.SockaddrUnix{Name: "/mnt/full"}))
	runtime.LockOSThread()
	here := fmt.Sprintf("/proc/self/task/%d/syscall", unix.Gettid())
	go func() {
		for call := []byte(nil); !bytes.HasPrefix(call, fmt.Append(nil, unix.SYS_CONNECT, " ")); { // until it waits
			call, _ = os.ReadFile(here)
		}
		_, _, _ = unix.Accept(full)
	}()
	third = must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	say("waits", unix.Connect(third, &unix.SockaddrUnix{Name: "/mnt/full"}))
	netlink := must(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE))
	say("netlink", unix.Connect(netlink, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	return 0
}

// TestLocal: without Landlock unix and netlink sockets are connected as with it.
func TestLocal(t *testing.T) {
	c := helper(t, "local")
	attach(t, c, allow())
	want := output(t, c)
	c = helper(t, "local")
	b := attach(t, c, allow())
	b.WithoutLandlock()
	b.Attach(c)
	got := output(t, c)
	if got != want {
		t.Errorf("without Landlock:\n%s\nwith it:\n%s", got, want)
	}
	for _, line := range []string{"/mnt/s: ok", "rel: ok", "@name: ok", "/mnt/closed: EACCES", "waits: ok", "no room: EAGAIN"} {
		if !strings.Contains(want, line+"\n") {
			t.Errorf("%q is not in\n%s", line, want)
		}
	}
}

// TestLocalOutside: a command was given a socket of the host's network. By it the command reaches neither an abstract
// name nor a socket of the host. The control: they can be reached from outside.
func TestLocalOutside(t *testing.T) {
	name := "@nsrun-test-" + t.TempDir()[1:]
	l := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(l)
	must(0, unix.Bind(l, &unix.SockaddrUnix{Name: name}))
	must(0, unix.Listen(l, 10))
	outside := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	if err := unix.Connect(outside, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(outside)
	f := os.NewFile(uintptr(must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))), "socket")
	defer f.Close()
	c := helper(t, "localgiven", name)
	c.ExtraFiles = []*os.File{f}
	b := attach(t, c, allow())
	b.WithoutLandlock()
	b.Attach(c)
	if got, want := output(t, c), "given: EPERM\nown: ECONNREFUSED"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func helpLocalGiven(args []string) int {
	say("given", unix.Connect(3, &unix.SockaddrUnix{Name: args[0]}))
	own := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	say("own", unix.Connect(own, &unix.SockaddrUnix{Name: args[0]}))
	return 0
}

// TestSwapDescriptorLocally is TestSwapDescriptor for connections that the broker makes: nobody exchanges its copy of
// the socket.
func TestSwapDescriptorLocally(t *testing.T) {
	allowed, _ := counter(t)
	denied, _ := counter(t)
	cmd := helper(t, "dup2race", allowed.String(), denied.String(), map[bool]string{false: "500ms", true: "5s"}[testenv.Long()])
	b := attach(t, cmd, allow("tcp:"+allowed.String()))
	b.WithoutLandlock()
	b.Attach(cmd)
	if sandbox.Of(cmd).Supervisor.NoConnect {
		t.Fatal("there is Landlock")
	}
	if got := output(t, cmd); got != "false" {
		t.Errorf("reached the denied server: %s", got)
	}
}
