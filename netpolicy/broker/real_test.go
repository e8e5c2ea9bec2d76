//go:build linux

package broker_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

// web is an HTTP server on the host's loopback device.
func web(t *testing.T) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page") }))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// Programs that know nothing of all that, each with its own way to wait for a connection.
func TestPrograms(t *testing.T) {
	for _, p := range []struct{ name, script string }{
		{"curl", `curl -sS -m 20 http://ALLOWED/; ! curl -sS -m 20 http://OUTSIDE/ 2>/dev/null`},
		{"python3", `python3 -c '
import urllib.request, asyncio, socket
print(end=urllib.request.urlopen("http://ALLOWED/").read().decode())
async def f():
    r, w = await asyncio.open_connection(*"ALLOWED".split(":"))
    w.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await r.read()).endswith(b"page")
    try:
        await asyncio.open_connection(*"OUTSIDE".split(":"))
    except ConnectionRefusedError:
        return
    raise Exception("connected")
asyncio.run(f())'`},
		{"node", `node -e '
const http = require("http");
http.get("http://ALLOWED/", r => { r.on("data", d => process.stdout.write(d)) });
http.get("http://OUTSIDE/").on("error", e => { if (e.code != "ECONNREFUSED") process.exit(1) });'`},
		{"perl", `perl -MIO::Socket::INET -e '
my $s = IO::Socket::INET->new(PeerAddr => "ALLOWED", Timeout => 10) or die $!;
print $s "GET / HTTP/1.0\r\n\r\n"; my @l = <$s>; print $l[-1];
die if IO::Socket::INET->new(PeerAddr => "OUTSIDE", Timeout => 10);'`},
		{"bash", `bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT && printf "GET / HTTP/1.0\r\n\r\n" >&3 && tail -n1 <&3; ! (: </dev/tcp/198.51.100.1/80) 2>/dev/null'`},
	} {
		t.Run(p.name, func(t *testing.T) {
			if _, err := exec.LookPath(p.name); err != nil {
				testenv.Skip(t, p.name, "not installed")
			}
			at := web(t)
			script := strings.NewReplacer("ALLOWED", at.String(), "OUTSIDE", outside.String(), "PORT", fmt.Sprint(at.Port())).Replace(p.script)
			c := command("/bin/sh", "-c", script)
			c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/mnt"}
			r := allow("tcp:" + at.String())
			attach(t, c, r)
			if got := strings.TrimSuffix(output(t, c), "\n"); got != "page" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A caller that waits for a connection which does not come is interrupted by a signal that it
// has a handler for, and can be killed.
func TestInterrupt(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		testenv.Skip(t, "perl", "not installed")
	}
	at := full(t)
	c := command("/bin/sh", "-c", fmt.Sprintf(`perl -MSocket -MPOSIX -e '
socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
POSIX::sigaction(SIGALRM, POSIX::SigAction->new(sub { alarm 1 })) or die; # again, where the first one came before connect
alarm 1;
connect($s, pack_sockaddr_in(%d, inet_aton("127.0.0.1"))) and die "connected";
print $!{EINTR} ? "interrupted\n" : "$!\n";
'; timeout -s KILL 1 perl -MSocket -e '
socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
connect($s, pack_sockaddr_in(%d, inet_aton("127.0.0.1"))) and die "connected";
'; echo $?`, at.Port(), at.Port()))
	attach(t, c, allow("tcp:"+at.String()))
	if got := output(t, c); got != "interrupted\n137" {
		t.Errorf("got %q", got)
	}
}

// full is a server that accepts nothing, with as many who wait as it has room for: to connect to it
// takes for ever.
func full(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(l) })
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return at
}

// Without Landlock the broker connects what the kernel must not go on with.
func TestWithoutLandlock(t *testing.T) {
	server := echo(t, "127.0.0.1:0")
	c := helper(t, "unix")
	b := attach(t, c, allow())
	b.WithoutLandlock()
	b.Attach(c)
	if got, want := output(t, c), "listen: ok\nconnect: ok\nnetlink: ok\nsendto: ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c = helper(t, "connect", server.String(), outside.String())
	b = attach(t, c, allow("tcp:"+server.String()))
	b.WithoutLandlock()
	b.Attach(c)
	if got, want := output(t, c), "hello\nECONNREFUSED"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A killed caller leaves nothing behind, and the Broker can be closed at any time.
func TestKilled(t *testing.T) {
	at := full(t)
	for _, first := range []string{"command", "broker"} {
		t.Run(first, func(t *testing.T) {
			asked := make(chan bool, 1)
			o := allow("tcp:" + at.String()).options()
			o.Report = func(netpolicy.Proto, netip.AddrPort, bool) { asked <- true }
			c := helper(t, "connect", at.String())
			b := attachOptions(t, c, o)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			if first == "broker" {
				b.Close()
			}
			_ = c.Process.Kill() // it may have ended with ENOSYS
			if err := c.Wait(); err == nil && first == "command" {
				t.Error("the command was not killed")
			}
			b.Close()
		})
	}
}
