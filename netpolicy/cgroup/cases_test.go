//go:build linux

package cgroup_test

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// TestCases drives the kernel with the table that the model and the other enforcer are driven
// with.
func TestCases(t *testing.T) {
	leaks(t)
	p := load(t)
	nettest.World(t)
	tried := nettest.Run(t, func(t testing.TB, table *netpolicy.Table, r *netpolicy.Resolver) nettest.Sandbox {
		if strings.HasSuffix(t.Name(), "/sockets_of_the_host_without_a_file") {
			needScopes(t)
		}
		at, mute := serveNames(t, r, 0)
		e := enforce(t, p, table, cgroup.Options{Resolver: at})
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := nsexec.Command(exe)
		c.Env = append(nsexec.BaseEnv(), nettest.ProbeEnv+"=1", "GORACE=atexit_sleep_ms=0")
		inside(c, e)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = c.Wait()
		})
		return nettest.NewPipe(t, in, out, nettest.PipeOptions{DNS: at, Mute: mute, Stop: func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}})
	})
	t.Logf("%d tries", tried)
	if tried < 250 {
		t.Errorf("only %d tries", tried)
	}
}

// serveNames serves a resolver until the end of the test, or before.
func serveNames(t testing.TB, r *netpolicy.Resolver, port uint16) (at netip.AddrPort, end func()) {
	t.Helper()
	packets, conns := nettest.ListenBoth(t, "127.0.0.53", port)
	at = netip.MustParseAddrPort(conns.Addr().String())
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = r.Serve(ctx, packets, conns) })
	end = func() {
		stop()
		done.Wait()
		packets.Close()
		conns.Close()
	}
	t.Cleanup(end)
	return at, end
}

// TestRealPrograms has programs reach servers by rules about names.
func TestRealPrograms(t *testing.T) {
	leaks(t)
	p := load(t)
	nettest.Programs(t, nil, func(t testing.TB, table *netpolicy.Table, r *netpolicy.Resolver, env []string, argv ...string) string {
		var of atomic.Pointer[cgroup.Enforcer]
		r.Serves = func(p netpolicy.Proto, client, server netip.AddrPort) bool {
			return of.Load().Serves(p, client, server)
		}
		at, _ := serveNames(t, r, 53)
		c := nsexec.Command(argv[0], argv[1:]...)
		c.Env = env
		e := enforce(t, p, table, cgroup.Options{Resolver: at})
		of.Store(e)
		inside(c, e)
		path, err := filepath.EvalSymlinks("/etc/resolv.conf")
		if err != nil {
			t.Fatal(err)
		}
		c.Mounts = append(slices.Clone(hostFiles), mounts.Tmpfs(nettest.Home),
			mounts.Data(path, []byte("nameserver "+at.Addr().String()+"\n")).RO().WithPerm(0o644))
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
		}
		return string(out)
	})
}
