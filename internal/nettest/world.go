//go:build linux

package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/netcases"
	"github.com/nsrun/nsrun/internal/testenv"
)

const (
	worldEnv = "NSRUN_NETTEST_WORLD" // "make" and then "here" in the network namespace of the world
	abstract = "\x00nsrun-nettest"   // a socket of the world without a file
)

// Main is for the beginning of a TestMain, before testenv.Main. If the process was started to be a probe it is one, and
// exits. As root it runs the binary again in a network namespace of its own, in which every address leads to the
// machine itself, and exits. Else it returns.
func Main() {
	if what := os.Getenv(ProbeEnv); what != "" {
		var err error
		switch what {
		case passer:
			err = pass(os.Args[1:])
		case renamer:
			err = rename(os.Args[1:])
		default:
			Probe(os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "nettest:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.AllNeedNamespaces()
	switch {
	case os.Getenv(worldEnv) == "make":
		if err := makeWorld(); err != nil {
			fmt.Fprintln(os.Stderr, "nettest:", err)
			os.Exit(1)
		}
		os.Setenv(worldEnv, "here")
		return
	case os.Getenv(worldEnv) == "here" || os.Geteuid() != 0 ||
		slices.ContainsFunc(os.Args, func(a string) bool { return strings.Contains(a, "test.fuzz") }):
		return
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Args[0] = os.Args[0]
	c.Env = append(os.Environ(), worldEnv+"=make")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := c.Run()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() > 0 {
		os.Exit(ee.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nettest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// makeWorld makes all addresses those of the machine, as "ip route add local 0.0.0.0/0 dev
// lo" does, and all ports everybody's.
func makeWorld() error {
	if err := loopbackUp(); err != nil {
		return err
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := localRoute(family); err != nil {
			return fmt.Errorf("make all addresses local: %w", err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// localRoute adds a route of type local for all addresses of a family.
func localRoute(family byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// nlmsghdr, rtmsg, and one attribute: the interface, which is the first in a new namespace.
	b := binary.NativeEndian.AppendUint32(nil, 16+12+8)
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	b = append(b, make([]byte, 8)...)
	b = append(b, family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, 8)
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_OIF)
	b = binary.NativeEndian.AppendUint32(b, 1)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < 20 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink does not answer")
	}
	if e := int32(binary.NativeEndian.Uint32(answer[16:])); e != 0 {
		return unix.Errno(-e)
	}
	return nil
}

// World starts servers on all ports that netcases knows of, and on those given, of all
// addresses: what comes over TCP or UDP goes back. They stop at the end of the test.
func World(t testing.TB, more ...uint16) {
	t.Helper()
	needWorld(t)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for _, port := range append(ports(), more...) {
		for _, v := range []struct{ version, any string }{{"4", "0.0.0.0"}, {"6", "[::]"}} {
			address := v.any + ":" + strconv.Itoa(int(port))
			l, err := net.Listen("tcp"+v.version, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			wg.Go(func() { echoTCP(l) })
			pc, err := net.ListenPacket("udp"+v.version, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pc.Close() })
			if err := wantDestination(pc.(*net.UDPConn), v.version == "6"); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { echoUDP(pc.(*net.UDPConn)) })
		}
	}
	l, err := net.Listen("unix", "@"+abstract[1:])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	wg.Go(func() { echoTCP(l) })
}

func needWorld(t testing.TB) {
	t.Helper()
	if os.Getenv(worldEnv) != "here" {
		testenv.Skip(t, "world", "the tests were not started as root")
	}
}

func ports() (list []uint16) {
	for _, c := range netcases.All() {
		for _, line := range c.Tries {
			target := netcases.ParseTry(line).Target
			if n, err := strconv.ParseUint(target[strings.LastIndexByte(target, ':')+1:], 10, 16); err == nil {
				list = append(list, uint16(n))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func echoTCP(l net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			_, _ = io.Copy(c, c)
		})
	}
}

// wantDestination makes packets come with the address that they were sent to.
func wantDestination(c *net.UDPConn, ipv6 bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if ipv6 {
			failed = errors.Join(
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)) // else no address but ::1 may be the source
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	return errors.Join(err, failed)
}

// echoUDP answers from the address that was asked.
func echoUDP(c *net.UDPConn) {
	buf, oob := make([]byte, 2048), make([]byte, 256)
	for {
		n, m, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if errors.Is(err, syscall.ECONNREFUSED) {
				continue
			}
			return
		}
		info := oob[:m]
		if from.Addr().Is4() && m >= unix.CmsgLen(unix.SizeofInet4Pktinfo) {
			// The answer goes out from Spec_dst, and by any interface.
			data := info[unix.CmsgLen(0):]
			copy(data[4:8], data[8:12])
			clear(data[:4])
		}
		_, _, _ = c.WriteMsgUDPAddrPort(buf[:n], info, from)
	}
}
