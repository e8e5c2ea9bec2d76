//go:build linux

package cgroup_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// abstractName is an abstract socket of the host.
const abstractName = "@nsrun-test-abstract"

// hostFiles is the host's file system, read-only.
var hostFiles = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}

// patience is how long a test waits for something that must not happen.
const patience = 300 * time.Millisecond

// leaks checks that the test leaves nothing.
func leaks(t testing.TB) {
	t.Helper()
	testenv.Leaks(t, nsexec.Shutdown)
}

func load(t testing.TB) *cgroup.Programs {
	t.Helper()
	testenv.NeedRoot(t)
	p, err := cgroup.Load()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPERM) {
		testenv.Skip(t, "bpf", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newTable(t testing.TB, rules ...string) *netpolicy.Table {
	t.Helper()
	table, err := netpolicy.NewTable(policy(t, rules...))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func policy(t testing.TB, rules ...string) netpolicy.Policy {
	t.Helper()
	p, err := netpolicy.ParsePolicy(rules...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decisions collects what an enforcer tells.
type decisions struct {
	mu   sync.Mutex
	list []cgroup.Decision
}

func (d *decisions) add(one cgroup.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, one)
}

// count is how often something was decided.
func (d *decisions) count(hook cgroup.Hook, dst string, allowed bool) (n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.list {
		if one.Hook == hook && one.Dst.String() == dst && one.Allowed == allowed {
			n += one.Count
		}
	}
	return n
}

func enforce(t testing.TB, p *cgroup.Programs, table *netpolicy.Table, o cgroup.Options) *cgroup.Enforcer {
	t.Helper()
	e, err := p.Enforce(table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A box is a sandbox, or for controls an ordinary process, that does what it is told.
type box struct {
	t   testing.TB
	cmd *nsexec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err bytes.Buffer
}

// newBox starts a box that no signal of its Go runtime interrupts. Without an enforcer it is a sandbox with the host's
// network. It inherits these files.
func newBox(t testing.TB, e *cgroup.Enforcer, files ...*os.File) *box {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, cmd: nsexec.Command(exe)}
	b.cmd.Env = append(nsexec.BaseEnv(), helperEnv+"=try", "GORACE=atexit_sleep_ms=0", "GODEBUG=asyncpreemptoff=1")
	inside(b.cmd, e)
	b.cmd.ExtraFiles = files
	b.cmd.Stderr = &b.err
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.in.Close()
		_ = b.cmd.Wait()
		if b.err.Len() > 0 && !t.Failed() {
			t.Errorf("the helper said: %s", b.err.Bytes())
		}
	})
	return b
}

// inside puts a command under an enforcer; without one it has the host's network.
func inside(c *nsexec.Cmd, e *cgroup.Enforcer) {
	c.Mounts = hostFiles
	c.Share = nsexec.Net
	if e != nil {
		c.Cgroup = e.Cgroup()
		c.HideAbstract = features.Has(features.LandlockScopes) // everything else is the same without
		c.Seccomp = []nsexec.Filter{cgroup.SocketFilter()}
	}
}

// needScopes skips a test of what nothing but a scope of Landlock closes.
func needScopes(t testing.TB) {
	t.Helper()
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
}

// do has something done and returns what came of it.
func (b *box) do(line string) string {
	b.t.Helper()
	if _, err := io.WriteString(b.in, line+"\n"); err != nil {
		b.t.Fatalf("%s: %v", line, err)
	}
	return b.read()
}

func (b *box) read() string {
	b.t.Helper()
	answer, err := b.out.ReadString('\n')
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.err.Bytes())
	}
	return strings.TrimSuffix(answer, "\n")
}

func (b *box) want(line, want string) {
	b.t.Helper()
	if got := b.do(line); got != want {
		b.t.Errorf("%s: got %q, want %q", line, got, want)
	}
}

// serve answers on ports of all addresses, by TCP and UDP, and on the abstract socket.
func serve(t testing.TB, ports ...uint16) {
	t.Helper()
	testenv.NeedRoot(t)
	var all []io.Closer
	var done sync.WaitGroup
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
		done.Wait()
	})
	listen := func(ln net.Listener, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ln)
		done.Go(func() { serveTCP(ln) })
	}
	for _, port := range ports {
		at := ":" + strconv.Itoa(int(port))
		listen(net.Listen("tcp", at))
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		done.Go(func() { serveUDP(c.(*net.UDPConn)) })
	}
	listen(net.Listen("unix", abstractName))
}

func serveTCP(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				_, _ = c.Write([]byte("answer\n"))
			}
		}()
	}
}

// serveUDP answers from the address that was asked, on a socket for both families.
func serveUDP(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	})
	b, control := make([]byte, 1500), make([]byte, 256)
	for {
		_, n, _, from, err := c.ReadMsgUDPAddrPort(b, control)
		if err != nil {
			return
		}
		var reply []byte
		if messages, err := unix.ParseSocketControlMessage(control[:n]); err == nil {
			for _, m := range messages {
				if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO {
					info := *(*unix.Inet6Pktinfo)(unsafe.Pointer(&m.Data[0]))
					info.Ifindex = 0
					reply = unix.PktInfo6(&info)
				}
			}
		}
		_, _, _ = c.WriteMsgUDPAddrPort([]byte("answer\n"), reply, from)
	}
}
