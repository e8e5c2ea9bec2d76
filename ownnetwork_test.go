//go:build linux

package nsrun_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

func init() { insides["own network"], insides["in own network"] = insideOwnNetwork, insideInOwnNetwork }

// reached connects a new socket, or the one that it is given, and returns what came of it.
func reached(at string, fd int, err error) string {
	if err == nil {
		port := int(netip.MustParseAddrPort(at).Port())
		err = sys.Retry(func() error { return unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}) })
	}
	if err != nil {
		return err.Error()
	}
	return "reached"
}

func tcpSocket() (int, error) {
	return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// insideOwnNetwork connects to a server outside, and has a process in a network namespace of its own try the same.
func insideOwnNetwork(args []string) int {
	fd, err := tcpSocket()
	fmt.Println("here:", reached(args[0], fd, err))
	exe, _ := os.Executable()
	c := exec.Command(exe, args...)
	c.Env = append(os.Environ(), insideEnv+"=in own network")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}}
	if err := c.Run(); err != nil {
		fmt.Println(err)
	}
	fd, err = tcpSocket()
	fmt.Println("here:", reached(args[0], fd, err))
	return 0
}

func insideInOwnNetwork(args []string) int {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // so that it is hard to look at
	fd, err := tcpSocket()
	fmt.Println("no device:", reached(args[0], fd, err))
	// A socket of a third network, which is made on a thread that is there.
	other := make(chan int)
	go func() {
		runtime.LockOSThread() // and it ends
		fd := -1
		if err := unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, _ = tcpSocket()
		}
		other <- fd
	}()
	fmt.Println("a third network:", reached(args[0], <-other, nil))
	up, err := unix.NewIfreq("lo")
	if err == nil {
		up.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up)
	}
	fmt.Println("lo:", err)
	fd, err = tcpSocket()
	fmt.Println("loopback:", reached(args[0], fd, err))
	// Servers there work.
	l, err := tcpSocket()
	if err == nil {
		err = unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(l, 1)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	name, _ := unix.Getsockname(l)
	fd, err = tcpSocket()
	fmt.Println("its own:", reached(fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port), fd, err))
	return 0
}

// TestOwnNetwork: where a command may make network namespaces, nothing leads out of them, not even to what rules allow:
// a sandbox inside that has no network has none.
func TestOwnNetwork(t *testing.T) {
	testenv.NeedUser(t) // root's commands have no user namespaces
	need(t, features.LockedLayers)
	at, count := accepted(t)
	dir := place(t)
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, UserNamespaces: true, Enforcer: nsrun.BrokerEnforcer,
		Net: netpolicy.MustParse("tcp:" + at.String()),
	}))
	const want = "here: reached\nno device: network is unreachable\na third network: operation not permitted\nlo: <nil>\n" +
		"loopback: connection refused\nits own: reached\nhere: reached\n"
	if got := output(t, r, insideRequest(t, "own network", at.String())); got != want || count.Load() > 2 {
		t.Errorf("got\n%swant\n%s%d connections", got, want, count.Load())
	}
}
