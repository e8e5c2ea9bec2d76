//go:build linux

package cgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

func tryBind(addr string) error {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	s, err := socket(a, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Bind(s, sockaddr(a))
}

// tryOwn asks a server of its own, at a port that the kernel chose.
func tryOwn(kind string) error {
	any := netip.MustParseAddrPort("127.0.0.1:0")
	if kind == "tcp6" || kind == "udp6" {
		any = netip.MustParseAddrPort("[::1]:0")
	}
	if kind == "tcp" || kind == "tcp6" {
		ln, err := socket(any, unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		defer unix.Close(ln)
		if err := listen(ln, any); err != nil {
			return err
		}
		s, err := socket(any, unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		if err := unix.Connect(s, sockaddr(local(ln))); err != nil {
			return err
		}
		c, _, err := unix.Accept4(ln, unix.SOCK_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(c)
		if _, err := unix.Write(c, []byte("answer\n")); err != nil {
			return err
		}
		return answer(s)
	}
	server, err := socket(any, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(server)
	if err := unix.Bind(server, sockaddr(any)); err != nil {
		return err
	}
	for _, connected := range []bool{false, true} {
		s, err := socket(any, unix.SOCK_DGRAM)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		to := sockaddr(local(server))
		if connected {
			if err := unix.Connect(s, to); err != nil {
				return err
			}
			to = nil
		}
		if err := unix.Sendto(s, []byte("ask\n"), 0, to); err != nil {
			return err
		}
		var b [16]byte
		_, from, err := unix.Recvfrom(server, b[:], 0)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		if err := unix.Sendto(server, []byte("answer\n"), 0, from); err != nil {
			return fmt.Errorf("server: %w", err)
		}
		if err := answer(s); err != nil {
			return err
		}
	}
	return nil
}

func listen(s int, a netip.AddrPort) error {
	if err := unix.Bind(s, sockaddr(a)); err != nil {
		return err
	}
	return unix.Listen(s, 8)
}

// local is the address of a socket.
func local(s int) netip.AddrPort {
	name, err := unix.Getsockname(s)
	if err != nil {
		return netip.AddrPort{}
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
	}
	return netip.AddrPort{}
}

// tryListen is a server that answers one connection, and says where it is, until there is another line.
func tryListen(addr string, in *bufio.Reader) error {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	// Else what is left of a connection keeps the port for a minute, from the next test too.
	if err := errors.Join(unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), listen(s, a)); err != nil {
		return err
	}
	fmt.Println(local(s))
	go func() {
		c, _, err := unix.Accept4(s, unix.SOCK_CLOEXEC)
		if err == nil {
			_, _ = unix.Write(c, []byte("answer\n"))
			unix.Close(c)
		}
	}()
	_, err = in.ReadString('\n')
	return err
}

// tryOptions sends a datagram with IP options, on a socket that may send it without.
func tryOptions(addr string) error {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	s, err := socket(a, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, sockaddr(a)); err != nil {
		return err
	}
	if err := unix.SetsockoptString(s, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x01\x01\x01\x00"); err != nil {
		return err
	}
	if _, err := unix.Write(s, []byte("ask\n")); err != nil {
		return err
	}
	return answer(s)
}

// connection is the one that tryConnection opened.
var connection int

// tryConnection opens a connection, or uses it.
func tryConnection(what string, args []string) (err error) {
	if what == "open" {
		a := netip.MustParseAddrPort(args[0])
		if connection, err = socket(a, unix.SOCK_STREAM); err != nil {
			return err
		}
		if err := unix.Connect(connection, sockaddr(a)); err != nil {
			return err
		}
	}
	if _, err := unix.Write(connection, []byte("ask\n")); err != nil {
		return err
	}
	return answer(connection)
}

// connected is the UDP socket that tryConnected connected.
var connected int

// tryConnected connects a UDP socket, or uses it.
func tryConnected(what string) (err error) {
	if what == "use" {
		if _, err := unix.Write(connected, []byte("ask\n")); err != nil {
			return err
		}
		return answer(connected)
	}
	a := netip.MustParseAddrPort(what)
	if connected, err = socket(a, unix.SOCK_DGRAM); err != nil {
		return err
	}
	return unix.Connect(connected, sockaddr(a))
}

// tryPass makes the UDP socket of tryConnected, and sends it over descriptor 3.
func tryPass() (err error) {
	if connected, err = socket(netip.MustParseAddrPort("0.0.0.0:0"), unix.SOCK_DGRAM); err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(connected), nil, 0)
}

// tryAdopt connects a socket from descriptor 3.
func tryAdopt(addr string) error {
	s, err := nettest.Receive(3)
	if err != nil {
		return err
	}
	connected = s
	return unix.Connect(s, sockaddr(netip.MustParseAddrPort(addr)))
}

// helpLoad loads the programs, and waits for its end.
func helpLoad([]string) int {
	p, err := cgroup.Load()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	fmt.Println("loaded")
	<-ended
	if err := p.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// helpPass sends two TCP sockets to descriptor 3.
func helpPass([]string) int {
	for range 2 {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Sendmsg(3, []byte{0}, unix.UnixRights(s), nil, 0)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// helpOrphan starts a sandbox that outlives it, with its own input and output, and waits to be killed.
func helpOrphan([]string) int {
	table, err := netpolicy.NewTable(netpolicy.MustParse("203.0.113.1:80"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	e, err := cgroup.New(table, cgroup.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c := nsexec.Command("/proc/self/exe")
	c.Path, _ = os.Executable()
	c.Env = append(nsexec.BaseEnv(), helperEnv+"=try", "GORACE=atexit_sleep_ms=0")
	inside(c, e)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Background = true
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	<-ended
	return 0
}
