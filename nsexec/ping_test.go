//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// helpPing sends an ICMP echo to this host by a datagram socket, and waits for the answer.
func helpPing([]string) int {
	for _, p := range [...]struct {
		family, proto int
		echo          byte
		to            unix.Sockaddr
	}{
		{unix.AF_INET, unix.IPPROTO_ICMP, 8, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}},
		{unix.AF_INET6, unix.IPPROTO_ICMPV6, 128, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}},
	} {
		fd, err := unix.Socket(p.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, p.proto)
		if err == nil {
			err = unix.Sendto(fd, []byte{p.echo, 0, 0, 0, 0, 0, 0, 1, 'p'}, 0, p.to)
		}
		if err == nil {
			var b [64]byte
			_, _, err = unix.Recvfrom(fd, b[:], 0)
		}
		fmt.Println(err)
	}
	return 0
}

// TestPing: a command can ping the hosts of a network namespace of its own without capabilities, where it has one id and
// where it has another one. The control is a sandbox as bubblewrap makes it.
func TestPing(t *testing.T) {
	leaks(t)
	ping := func(change func(c *nsexec.Cmd)) string {
		c := helper("ping")
		c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter()}
		change(c)
		return output(t, c)
	}
	const works = "<nil>\n<nil>"
	if got := ping(func(*nsexec.Cmd) {}); got != works {
		t.Errorf("%q", got)
	}
	if got := ping(func(c *nsexec.Cmd) { c.GIDMap = []nsexec.IDMap{{Inside: 7, Outside: uint32(os.Getgid()), Count: 1}} }); got != works {
		t.Errorf("with another id: %q", got)
	}
	if got := ping(func(c *nsexec.Cmd) { sandbox.Of(c).Bubblewrap = true }); !strings.Contains(got, "permission denied") {
		t.Errorf("the control: %q", got)
	}
}
