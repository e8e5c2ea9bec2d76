//go:build linux

package nsexec_test

import (
	"fmt"
	"net"
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

// TestPing: a command without capabilities can ping the hosts of its own network namespace, whether it has one id or
// another. The control is a sandbox as bubblewrap makes it.
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

func helpPort([]string) int {
	l, err := net.Listen("tcp", "127.0.0.1:80")
	if err == nil {
		l.Close()
	}
	fmt.Println(err)
	return 0
}

// TestPorts: only root's command listens on ports below 1024 in its own network namespace. The controls are sandboxes
// without nsrun's settings, and ones in which root gives the command another id.
func TestPorts(t *testing.T) {
	leaks(t)
	listen := func(change func(c *nsexec.Cmd)) bool {
		c := helper("port")
		change(c)
		switch got := output(t, c); {
		case got == "<nil>":
			return true
		case strings.Contains(got, "permission denied"):
			return false
		default:
			t.Fatal(got)
		}
		return false
	}
	root := os.Geteuid() == 0
	if got := listen(func(*nsexec.Cmd) {}); got != root {
		t.Errorf("%v, want %v", got, root)
	}
	if listen(func(c *nsexec.Cmd) { sandbox.Of(c).Bubblewrap = true }) {
		t.Error("with Bubblewrap, the command listens on a port below 1024")
	}
	if !root {
		return
	}
	c := shell("cat /proc/sys/net/ipv4/ip_unprivileged_port_start")
	c.Mounts = base()
	c.Credential = &nsexec.Credential{UID: 65534, GID: 65534}
	if got := output(t, c); got == "0" {
		t.Error("another user's id may listen on all ports")
	}
}
