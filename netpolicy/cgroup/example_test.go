//go:build linux

package cgroup_test

import (
	"fmt"
	"log"
	"net"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// TestExamples says where the examples cannot be run.
func TestExamples(t *testing.T) {
	testenv.Examples(t, func() {
		testenv.NeedRoot(t)
		programs, err := cgroup.Load()
		if err == nil {
			err = programs.Close()
		}
		if err != nil {
			testenv.Skip(t, "bpf", err.Error())
		}
		needScopes(t)
	})
}

// A command reaches one server of the host's loopback device, and nothing else. This takes the
// rights of root.
func ExampleLoad() {
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

	programs, err := cgroup.Load() // once, for any number of commands
	if err != nil {
		log.Fatal(err)
	}
	defer programs.Close()
	table, err := netpolicy.NewTable(netpolicy.MustParse("tcp:" + server.Addr().String()))
	if err != nil {
		log.Fatal(err)
	}
	enforcer, err := programs.Enforce(table, cgroup.Options{
		Decided: func(d cgroup.Decision) {
			if !d.Allowed {
				fmt.Println("denied:", d.Dst)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	port := server.Addr().(*net.TCPAddr).Port
	cmd := nsexec.Command("bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d; cat <&3; : 3<>/dev/tcp/203.0.113.1/80", port))
	cmd.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	cmd.Share = nsexec.Net
	cmd.HideAbstract = true
	cmd.Cgroup = enforcer.Cgroup()
	cmd.Seccomp = append(cmd.Seccomp, cgroup.SocketFilter())
	cmd.Stdout = os.Stdout
	fmt.Println(cmd.Run())
	if err := enforcer.Close(); err != nil { // all has been told then
		log.Fatal(err)
	}
	// Unordered output:
	// hello
	// exit status 1
	// denied: 203.0.113.1:80
}

// The zero Policy allows nothing.
func ExampleNew() {
	table, err := netpolicy.NewTable(netpolicy.Policy{})
	if err != nil {
		log.Fatal(err)
	}
	enforcer, err := cgroup.New(table, cgroup.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer enforcer.Close()

	cmd := nsexec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/22")
	cmd.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
	cmd.Share = nsexec.Net
	cmd.HideAbstract = true
	cmd.Cgroup = enforcer.Cgroup()
	cmd.Seccomp = append(cmd.Seccomp, cgroup.SocketFilter())
	fmt.Println(cmd.Run())
	// Output: exit status 1
}
