//go:build linux

package broker_test

import (
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// A command reaches one server of the host's loopback device, and nothing else.
func ExampleNew() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, "hello")
			conn.Close()
		}
	}()
	addr := server.Addr().(*net.TCPAddr).AddrPort()
	policy := netpolicy.MustParse("tcp:" + addr.String())

	b, err := broker.New(broker.Options{
		Decide:       func(p netpolicy.Proto, to netip.AddrPort) bool { return policy.Allows(p, to) },
		HostLoopback: func(to netip.AddrPort) bool { return to == addr },
		Report: func(p netpolicy.Proto, to netip.AddrPort, allowed bool) {
			if !allowed {
				fmt.Println("denied:", to)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	cmd := nsexec.Command("bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d; cat <&3; : 3<>/dev/tcp/203.0.113.1/80", addr.Port()))
	cmd.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	cmd.Stdout = os.Stdout
	b.Attach(cmd)
	fmt.Println(cmd.Run())
	// Unordered output:
	// hello
	// denied: 203.0.113.1:80
	// exit status 1
}
