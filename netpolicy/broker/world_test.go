//go:build linux

package broker_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// A world is a network namespace with addresses that are not loopback ones: what is "the
// host" for UDP, which never leaves a loopback device. Programs are in it without any
// privilege.

var worldAddresses = []string{"198.51.100.1", "2001:db8:1::1"}

// inWorld runs a helper in a world, and returns what it said.
func inWorld(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		testenv.Skip(t, "ip", "iproute2 makes the test's network")
	}
	c := exec.Command(exe(t), append([]string{name}, args...)...)
	c.Env = append(os.Environ(), helperEnv+"=world", "GORACE=atexit_sleep_ms=0")
	uid, gid := os.Getuid(), os.Getgid()
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// helpWorld gives the loopback device addresses, and TCP a default of its own, and goes on as another helper.
func helpWorld(args []string) int {
	script := "ip link set lo up && echo 600 > /proc/sys/net/ipv4/tcp_keepalive_time"
	for _, a := range worldAddresses {
		script += " && ip addr add " + a + " dev lo nodad"
	}
	script += " && ip -6 route add local 2001:db8::/32 dev lo"
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		fmt.Printf("%v: %s", err, out)
		return 1
	}
	must(0, unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	must(0, os.Setenv(helperEnv, args[0]))
	fmt.Println(syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args[1:]...), os.Environ()))
	return 1
}

// udpEcho answers each message with its text in front of a mark.
func udpEcho(address string) (netip.AddrPort, func()) {
	c := must(net.ListenPacket("udp", net.JoinHostPort(address, "0")))
	go func() {
		b := make([]byte, 65536)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(append([]byte("re:"), b[:n]...), from)
		}
	}()
	return netip.MustParseAddrPort(c.LocalAddr().String()), func() { _ = c.Close() }
}

// helpBrokered is an embedding program: in the world it runs another helper in a sandbox, with a UDP server
// outside that is allowed, and one that is not.
func helpBrokered(args []string) int {
	defer nsexec.Shutdown()
	allowed, stop := udpEcho(args[1])
	defer stop()
	denied, stop := udpEcho(args[1])
	defer stop()
	silent := netip.AddrPortFrom(allowed.Addr(), 9) // allowed, and nobody is there
	r := allow("udp:"+allowed.String(), "udp:"+silent.String(), "tcp:"+allowed.String())
	l := must(net.Listen("tcp", allowed.String()))
	defer l.Close()
	b := must(broker.New(r.options()))
	defer b.Close()
	c := nsexec.Command(must(os.Executable()), allowed.String(), denied.String(), silent.String())
	c.Mounts = command("").Mounts
	c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter()}
	c.Env = append(nsexec.BaseEnv(), helperEnv+"="+args[0])
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	b.Attach(c)
	if err := c.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestDefaults: a socket that the kernel has made in the sandbox, and that then connects outside, has the defaults of
// the host's network.
func TestDefaults(t *testing.T) {
	if got, want := inWorld(t, "brokered", "defaults", worldAddresses[0]), "inside: ok\nconnect: ok\n600"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUDP(t *testing.T) {
	for _, address := range worldAddresses {
		t.Run(address, func(t *testing.T) {
			want := "re:ping same\nre:ping same\nEPERM\nECONNREFUSED\nreceive: ECONNREFUSED"
			if got := inWorld(t, "brokered", "udp", address); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("messages", func(t *testing.T) {
		want := `sendmsg allowed: ok
re:ping
sendmsg denied: EPERM
sendmmsg allowed: ok
re:ping
re:ping
sendmmsg denied: EPERM`
		if got := inWorld(t, "brokered", "messages", worldAddresses[0]); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("sizes", func(t *testing.T) {
		if got := inWorld(t, "brokered", "sizes", worldAddresses[0]); got != "0 1 1472 9000 65000\nsegments: 10 of 1000" {
			t.Errorf("got %q", got)
		}
	})
	// The kernel's own route, with the metric 0, comes at some time after the address: answers were lost until then.
	t.Run("route", func(t *testing.T) {
		if got := inWorld(t, "brokered", "route", worldAddresses[1]); !strings.Contains(got, "00000400") {
			t.Errorf("local routes have the metrics %q", got)
		}
	})
	t.Run("swap", func(t *testing.T) {
		if got := inWorld(t, "brokered", "udpswap", worldAddresses[0]); got != "true only" {
			t.Errorf("got %q", got)
		}
	})
}
