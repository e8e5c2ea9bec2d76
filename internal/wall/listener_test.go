//go:build linux

package wall

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// listening makes a TCP socket that listens at an address.
func listening(t *testing.T, at netip.AddrPort) (fd sys.FD, ino uint64) {
	t.Helper()
	domain := unix.AF_INET
	if at.Addr().Is6() {
		domain = unix.AF_INET6
	}
	n, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(n, sockaddr(at.Addr(), at.Port()))
	}
	if err == nil {
		err = unix.Listen(n, 1)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(n, &st)
	}
	if err != nil {
		t.Fatalf("listen at %v: %v", at, err)
	}
	return sys.FD(n), st.Ino
}

// theirs makes a server of the host, and says where it is.
func theirs(t *testing.T) (fd sys.FD, ino uint64, at netip.AddrPort) {
	t.Helper()
	a := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	fd, ino = listening(t, netip.AddrPortFrom(a, 0))
	name, err := unix.Getsockname(int(fd))
	if err != nil {
		t.Fatal(err)
	}
	return fd, ino, netip.AddrPortFrom(a, uint16(name.(*unix.SockaddrInet4).Port))
}

// entry is how /proc/net/tcp writes an IPv4 address.
func entry(at netip.AddrPort) string {
	b := at.Addr().As4()
	return fmt.Sprintf(" %02X%02X%02X%02X:%04X 00000000:0000 0A ", b[3], b[2], b[1], b[0], at.Port())
}

// TestSamePort: a command whose own server has the port of a server of the host can connect to its own only. The
// control is that the kernel connects to both.
func TestSamePort(t *testing.T) {
	their, _, theirs := theirs(t)
	defer their.Close()
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), theirs.Port())
	mine, ino := listening(t, own)
	defer mine.Close()
	s := sockets{bound: map[uint64]uint16{ino: own.Port()}}
	mapped := func(at netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port())
	}
	nobody := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.3"), own.Port())
	for at, want := range map[netip.AddrPort]uint64{own: ino, mapped(own): ino, theirs: 0, mapped(theirs): 0, nobody: 0} {
		if got := s.server(at); got != want {
			t.Errorf("%v: %d, want %d", at, got, want)
		}
		c, err := net.Dial("tcp", at.String())
		if err == nil {
			_ = c.Close()
		}
		if reached := err == nil; reached != (at != nobody) {
			t.Errorf("the control: %v: %v", at, err)
		}
	}
}

// TestUnlisted: a command can keep a server of the host out of the kernel's list of sockets, and is not connected to it
// all the same. The control is that list.
func TestUnlisted(t *testing.T) {
	testenv.NeedLong(t) // it takes seconds to find a socket in the same bucket of the kernel's table
	their, ino, theirs := theirs(t)
	defer their.Close()
	for begin := time.Now(); !keptOut(t, theirs); {
		if time.Since(begin) > time.Minute {
			t.Fatal("the control: the list still has the host's server")
		}
	}
	if got := listenerAt(theirs); uint64(got) != ino {
		t.Errorf("%d listens, want %d", got, ino)
	}
}

// keptOut makes many sockets listen, and reads the kernel's list line by line. When the line comes that is right before
// the one of an address, it closes that socket. It reports whether the address is missing then: if both sockets
// are in one bucket of the kernel's table, the kernel leaves out the one that is now first.
func keptOut(t *testing.T, at netip.AddrPort) bool {
	const many = 200
	fds := make(map[string]sys.FD)
	defer func() {
		for _, fd := range fds {
			fd.Close()
		}
	}()
	for len(fds) < many {
		n := rand.Uint32()
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n) | 4}), at.Port())
		if _, ok := fds[entry(a)]; !ok {
			fds[entry(a)], _ = listening(t, a)
		}
	}
	before, found := "", false
	for _, line := range lines(t, func(string) {}) {
		if found = strings.Contains(line, entry(at)); found {
			break
		}
		before = line
	}
	if !found {
		t.Fatal("the control: the list never had the host's server")
	}
	found = false
	for _, line := range lines(t, func(line string) {
		if line == before {
			for name, fd := range fds {
				if strings.Contains(line, name) {
					fd.Close()
					delete(fds, name)
				}
			}
		}
	}) {
		found = found || strings.Contains(line, entry(at))
	}
	return !found
}

// lines reads /proc/net/tcp, each line by one call, after which it calls do.
func lines(t *testing.T, do func(line string)) (all []string) {
	t.Helper()
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 150)
	for {
		if _, err := io.ReadFull(f, b); err != nil {
			return all
		}
		line := string(b[5:]) // without its number
		all = append(all, line)
		do(line)
	}
}
