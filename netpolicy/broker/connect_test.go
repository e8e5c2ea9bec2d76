//go:build linux

package broker_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// A kase is a helper with its arguments, and what it prints. ALLOWED and DENIED are servers on the host's
// loopback device, OUTSIDE is elsewhere.
type kase struct {
	name, helper string
	args         []string
	want         string
}

// outside is an address that nobody has (RFC 5737). Nothing is ever sent there, because no rule allows it.
var outside = netip.MustParseAddrPort("198.51.100.1:80")

// What helpers say that connect sockets which something was done to.
const (
	options = `keepalive: ok
nodelay: ok
keepidle: ok
tos: ok
rcvbuf: ok
usertimeout: ok
connect: ok
keepalive 1
nodelay 1
keepidle 77
tos 16
rcvbuf 60000
usertimeout 5000
rcvtimeo 9
cloexec 0 nonblock 0
connect: ok
cloexec 1
hello`
	registered = `add: ok
add: ok
1 100 -7 true false
mod: ok
9
del: ok
1 101 -8 true false
mod: ok
9
del: ok
hello`
	duplicated = "connect: ok\nok 0\nok 0\nok 1\nhello"
)

// TestObserverWaits: an Observer that waits itself answers calls without the Broker, and the Broker gets all others.
func TestObserverWaits(t *testing.T) {
	var f seccomp.Filter
	f.Nr()
	f.When(seccomp.Equal, unix.SYS_SCHED_GETAFFINITY, f.Notify) // which Go's runtime calls
	f.Allow()
	var n notify.Notification
	var answered, passed atomic.Int32
	c := helper(t, "connect", echo(t, "127.0.0.1:0").String())
	sandbox.Of(c).Observer = &sandbox.Observer{
		Filter: f, Look: func(*notify.Notification) {}, Answers: func(int32) bool { return false },
		Handle: func(l notify.Listener, n *notify.Notification) { t.Errorf("system call %d", n.NR); l.Proceed(n.ID) },
		Next: func(l notify.Listener, stop int) *notify.Notification {
			for l.Wait(stop) {
				if l.Receive(&n) != 0 {
					continue
				}
				if n.NR != unix.SYS_SCHED_GETAFFINITY {
					passed.Add(1)
					return &n
				}
				answered.Add(1)
				l.Proceed(n.ID)
			}
			return nil
		},
	}
	attach(t, c, allow("tcp:"+c.Args[1]))
	if out := output(t, c); !strings.HasSuffix(out, "hello") || answered.Load() == 0 || passed.Load() == 0 {
		t.Errorf("%q, %d answered, %d passed on", out, answered.Load(), passed.Load())
	}
}

// A socket of the host's network that is connected inside is exchanged, and so is one of the sandbox's
// that is connected outside.
func TestExchange(t *testing.T) {
	for name, want := range map[string]string{
		"connect": "hello", "nonblock": "hello", "options": options, "epoll": registered, "dup": duplicated, "threads": "160", "many": "160",
	} {
		for _, way := range []string{"within", "guess"} {
			k := kase{way, way, []string{"ALLOWED", name}, want}
			t.Run(way+"/"+name, k.run)
			if testenv.TurnOf(way + name) {
				t.Run(way+"/"+name+" without kcmp", func(t *testing.T) {
					k.runOn(t, func(b *broker.Broker, c *nsexec.Cmd) { b.WithoutKcmp(); b.Attach(c) })
				})
			}
		}
	}
}

func TestConnect(t *testing.T) {
	for _, c := range []kase{
		{"connect", "connect", []string{"ALLOWED", "OUTSIDE"}, "hello\nECONNREFUSED"},
		{"nonblock", "nonblock", []string{"ALLOWED", "OUTSIDE"}, "hello\nECONNREFUSED"},
		{"mapped", "connect", []string{"[::ffff:ALLOWED", "[::ffff:OUTSIDE"}, "hello\nECONNREFUSED"},
		{"options", "options", []string{"ALLOWED"}, options},
		{"epoll", "epoll", []string{"ALLOWED"}, registered},
		{"dup", "dup", []string{"ALLOWED"}, duplicated},
		{"again", "again", []string{"ALLOWED", "OUTSIDE"}, `first: ok
second: EISCONN
denied: ECONNREFUSED
hello
denied: ECONNREFUSED
allowed: ok
hello`},
		{"addressed", "addressed", []string{"ALLOWED", "203.0.113.9:9"}, "sendto: ok\nsendmsg: ok\nprobe: ENETUNREACH"},
		{"threads", "threads", []string{"ALLOWED"}, "160"},
		{"go", "many", []string{"ALLOWED"}, "160"},
		{"processes", "fork", []string{"ALLOWED", "OUTSIDE"}, "hello\nECONNREFUSED"},
		{"inside", "inside", []string{"127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "192.0.0.8:1"}, `127.0.0.1:1: ECONNREFUSED
[::1]:1: ECONNREFUSED
0.0.0.0:1: ECONNREFUSED
192.0.0.8:1: ECONNREFUSED`},
		{"unix", "unix", nil, "listen: ok\nconnect: ok\nnetlink: ok\nsendto: ok"},
		{"bad", "bad", []string{"ALLOWED"}, `nowhere: EINVAL
fault: EFAULT
short: EINVAL
negative: EINVAL
closed: EBADF
file: ENOTSOCK
family: EAFNOSUPPORT
other family: EINVAL
unix: EAFNOSUPPORT
none: EINVAL
closed, fault: EBADF`},
		{"server", "server", nil, `bind: ok
listen: ok
options: true inside: true
in use: EADDRINUSE
connect: ok
1 7
accept: ok
privileged: ` + map[bool]string{true: "ok", false: "EACCES"}[testenv.Root()]},
		{"listen", "listen", nil, strings.TrimSuffix(strings.Repeat("bind: ok\nlisten: ok\n"+strings.Repeat("connect: ok\ntrue\naccept: ok\nhello\n", 2), 3), "\n")},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

// TestListenAfterFailure: a connect that failed does not keep anybody from listening.
func TestListenAfterFailure(t *testing.T) {
	at := nobody(t)
	c := helper(t, "failed", at)
	attach(t, c, allow("tcp:"+at))
	if got, want := output(t, c), "connect: EINPROGRESS\nbind: ok\nlisten: ok\ninside: true"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// nobody is an address at which no program listens, and none can until the test ends.
func nobody(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, sockaddr("127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// run runs the helper in a sandbox with two servers outside, one of which is allowed.
func (k kase) run(t *testing.T) { k.runOn(t, (*broker.Broker).Attach) }

// runOn is run with a Broker that attach changes.
func (k kase) runOn(t *testing.T, again func(*broker.Broker, *nsexec.Cmd)) {
	allowed, denied := echo(t, "127.0.0.1:0"), echo(t, "127.0.0.1:0")
	c := helper(t, k.helper, fill(k.args, allowed, denied)...)
	again(attach(t, c, allow("tcp:"+allowed.String())), c)
	if got := output(t, c); got != k.want {
		t.Errorf("got\n%s\nwant\n%s", got, k.want)
	}
}

// fill puts the servers into arguments.
func fill(args []string, allowed, denied netip.AddrPort) []string {
	var all []string
	for _, a := range args {
		for name, s := range map[string]netip.AddrPort{"ALLOWED": allowed, "DENIED": denied, "OUTSIDE": outside} {
			if rest, ok := strings.CutSuffix(a, name); ok {
				a = s.String()
				if rest != "" { // an IPv4-mapped one
					a = rest + strings.Replace(a, ":", "]:", 1)
				}
			}
		}
		all = append(all, a)
	}
	return all
}

// TestAllThreads: what has all threads of this process do something does not wait for one of the Broker's for ever.
func TestAllThreads(t *testing.T) {
	server := echo(t, "127.0.0.1:0")
	c := helper(t, "orphan", server.String())
	b := attach(t, c, allow("tcp:"+server.String()))
	inTwoParts(t, c, func() error {
		if _, _, e := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); e != 0 && e != syscall.ENOTSUP { // with cgo
			return e
		}
		b.Close()
		return nil
	}, "socket: ENOSYS\nconnect: ENOSYS\nsendto: ENOSYS\nbind: ENOSYS\nlisten: ENOSYS\nwrite: ok\n")
}

// What the process that decides leaves undone, the kernel does not do either.
func TestClosed(t *testing.T) {
	server := echo(t, "127.0.0.1:0")
	c := helper(t, "orphan", server.String())
	b := attach(t, c, allow("tcp:"+server.String()))
	inTwoParts(t, c, func() error { b.Close(); return nil }, "socket: ENOSYS\nconnect: ENOSYS\nsendto: ENOSYS\nbind: ENOSYS\nlisten: ENOSYS\nwrite: ok\n")
}

func TestPublish(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, at := range []string{"127.0.0.1:8000", "[::1]:8000"} {
		t.Run(at, func(t *testing.T) {
			c := helper(t, "serve", at, "3")
			b := attachOptions(t, c, publishing(8000))
			startBefore(t, c)
			for range 3 {
				conn, err := net.Dial("tcp", b.Published()[0].String())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte("shout")); err != nil {
					t.Error(err)
				}
				got, err := io.ReadAll(conn)
				if err != nil || string(got) != "SHOUT" {
					t.Errorf("got %q, %v", got, err)
				}
				_ = conn.Close()
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNeedsOwnNetwork(t *testing.T) {
	c := helper(t, "connect")
	attach(t, c, allow())
	c.Share = nsexec.Net
	if err := c.Run(); err == nil {
		t.Error("a supervisor for the host's network namespace")
	}
}
