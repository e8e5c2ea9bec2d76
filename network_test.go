//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// enforcers runs a test with each that this user can have.
func enforcers(t *testing.T, f func(t *testing.T, e nsrun.Enforcer)) {
	t.Helper()
	testenv.Leaks(t, nsexec.Shutdown)
	for _, e := range []nsrun.Enforcer{nsrun.KernelEnforcer, nsrun.BrokerEnforcer} {
		t.Run(e.String(), func(t *testing.T) {
			if e == nsrun.KernelEnforcer {
				testenv.NeedRoot(t)
			}
			needEnforcer(t, e)
			f(t, e)
		})
	}
}

// server serves HTTP on this host, and returns its address.
func server(t *testing.T) netip.AddrPort {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// fetch is a shell command that fetches from a port of 127.0.0.1, in bash's own words.
func fetch(port uint16) string {
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d && printf "GET / HTTP/1.0\r\n\r\n" >&3 && cat <&3'`, port)
}

// TestAllowNet: a command reaches only what a rule names. What it was refused is reported with the rule that would
// allow it.
func TestAllowNet(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		p := filepath.Join(place(t), "p")
		allowed, other := server(t), server(t)
		r := nsrun.NewRunner(nsrun.Config{Project: p, After: nsrun.Discard, Enforcer: e, Net: netpolicy.MustParse("tcp:" + allowed.String())})
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
		var wg sync.WaitGroup
		for i := range 6 { // at once, too, and again, where something was made ready meanwhile
			if i == 3 {
				wg.Wait()
			}
			wg.Go(func() {
				res, err := r.Run(t.Context(), nsrun.Request{Command: fetch(allowed.Port()) + "; " + fetch(other.Port())})
				if err != nil {
					t.Error(err)
					return
				}
				if n := strings.Count(res.Stdout.String(), "served"); n != 1 || res.ExitCode == 0 {
					t.Errorf("served %d times: %s", n, res)
				}
				if res.Network.Mode != e.String() {
					t.Errorf("the mode is %q", res.Network.Mode)
				}
				denied := res.Network.Denied()
				// With the broker another port of 127.0.0.1 is the sandbox's own.
				if e == nsrun.BrokerEnforcer {
					if len(denied) > 0 {
						t.Errorf("denied: %+v", denied)
					}
					return
				}
				want := "--allow-net tcp:" + other.String()
				if len(denied) != 1 || denied[0].AllowWith != want || denied[0].Port != other.Port() {
					t.Errorf("denied: %+v, not with %q", denied, want)
				}
			})
		}
		wg.Wait()
		// What no rule names is not reached, by number or by name, and at once.
		res, err := r.Run(t.Context(), nsrun.Request{Command: `bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'; getent ahosts www.example.com`})
		if err != nil {
			t.Fatal(err)
		}
		var with []string
		for _, d := range res.Network.Denied() {
			with = append(with, d.AllowWith)
		}
		slices.Sort(with)
		if !slices.Equal(with, []string{"--allow-net tcp:192.0.2.1:80", "--allow-net www.example.com"}) {
			t.Errorf("denied: %q\n%s", with, res)
		}
	})
}

// TestNotRefused: what fails without rules, too, is no refusal: a port of 127.0.0.1 at which no server listens, and a
// name of this machine that /etc/hosts has no address of that family for. Nor is it one to ask for the addresses of
// network devices, which root's commands do through a socket that could change them.
func TestNotRefused(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		for _, why := range []bool{false, true} {
			r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Enforcer: e, Why: why, Net: netpolicy.MustParse("example.com")})
			res, err := r.Run(t.Context(), nsrun.Request{Command: `getent hosts "$(cat /proc/sys/kernel/hostname)"; getent ahosts 127.0.0.1; exec 2>&1; bash -c ': >/dev/tcp/127.0.0.1/1'`})
			if err != nil || res.ExitCode == 0 {
				t.Fatal(res, err)
			}
			if len(res.Network.Denied()) > 0 || len(res.Refusals) > 0 {
				t.Errorf("why %t: %+v, %+v", why, res.Network.Denied(), res.Refusals)
			}
		}
	})
}

// TestNothingLeft: commands that are not started, or that run while the Runner is closed, leave nothing behind,
// although the next sandbox is made in advance.
func TestNothingLeft(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		r := nsrun.NewRunner(nsrun.Config{
			Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Enforcer: e, Net: netpolicy.MustParse("tcp:127.0.0.1:1"),
		})
		for range 4 {
			for _, timeout := range []time.Duration{0, 1} {
				_, err := r.Run(t.Context(), nsrun.Request{Command: "true", Timeout: timeout})
				if errors.Is(err, context.DeadlineExceeded) != (timeout > 0) {
					t.Errorf("with a timeout of %d: %v", timeout, err)
				}
			}
		}
		x, err := r.Start(t.Context(), nsrun.Request{Command: "read line", Stdin: blocked(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("while a command runs: %v", err)
		}
		if err := x.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if _, err := x.Wait(); err != nil {
			t.Error(err)
		}
		// Before nsexec.Shutdown: what waits in vain is not a leak behind it.
		testenv.Eventually(t, "no child waits to be waited for", func() bool {
			stats, err := filepath.Glob("/proc/[0-9]*/stat")
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(stats, func(stat string) bool {
				b, _ := os.ReadFile(stat)
				return strings.Contains(string(b), fmt.Sprintf(") Z %d ", os.Getpid()))
			})
		})
	})
}

// blocked is a standard input on which nothing comes.
func blocked(t *testing.T) io.Reader {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r
}

// TestNoRules: without rules there is no network, and attempts are reported.
func TestNoRules(t *testing.T) {
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard})
	at := server(t)
	res, err := r.Run(t.Context(), nsrun.Request{Command: fetch(at.Port())})
	if err != nil || res.ExitCode == 0 || res.Network.Mode != "none" || len(res.Network.Decisions) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestLearnNet: it takes a yes, lets everything through, and says which rules would do.
func TestLearnNet(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		p := filepath.Join(place(t), "p")
		at := server(t)
		own := ownAddress(t)
		q := nsrun.Request{Command: "bash -c 'exec 3<>/dev/tcp/" + own.String() + "/1'; true", LearnNet: true}
		if e == nsrun.KernelEnforcer {
			q.Command = fetch(at.Port()) + ";" + q.Command
		}
		if _, err := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Enforcer: e}).Run(t.Context(), q); err == nil {
			t.Error("nobody was asked")
		}
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Enforcer: e, Approver: yes{}})
		res, err := r.Run(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"tcp:" + netip.AddrPortFrom(own, 1).String()}
		if e == nsrun.KernelEnforcer {
			want = append(want, "tcp:"+at.String())
		}
		slices.Sort(want)
		got := slices.Clone(res.Network.Rules)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("rules %q, not %q\n%s", got, want, res)
		}
		if _, err := netpolicy.ParsePolicy(res.Network.Rules...); err != nil {
			t.Error(err)
		}
	})
}

type yes struct{}

func (yes) Approve(context.Context, nsrun.Question) (nsrun.Answer, error) { return nsrun.Allow, nil }

// ownAddress is one of this host's that is not a loopback one.
func ownAddress(t *testing.T) netip.Addr {
	own, err := netpolicy.OwnAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if a.Is4() && !a.IsLoopback() {
			return a
		}
	}
	testenv.Skip(t, "own-address", "this host has no address of its own")
	return netip.Addr{}
}

// TestPublish: a server inside can be reached from here on the ports that are published.
func TestPublish(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		p := filepath.Join(place(t), "p")
		// A port that the kernel gives nobody who asks for any, and that no task of package tools takes meanwhile.
		port := 20000 + os.Getpid()%8000
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		for ; err != nil && port < 28900; l, err = net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)) {
			port++
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Enforcer: e, Publish: []uint16{uint16(port)}})
		ready := make(chan struct{})
		var got []byte
		var wg sync.WaitGroup
		wg.Go(func() {
			<-ready
			c, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			buf := make([]byte, 100)
			n, _ := c.Read(buf)
			got = buf[:n]
		})
		var once sync.Once
		res, err := r.Run(t.Context(), nsrun.Request{
			Command: `python3 -c '
import socket
s = socket.create_server(("127.0.0.1", ` + strconv.Itoa(port) + `))
print("ready", flush=True)
c, _ = s.accept()
c.sendall(b"from inside")
c.close()'`,
			Stdout: writer(func() { once.Do(func() { close(ready) }) }),
		})
		once.Do(func() { close(ready) })
		wg.Wait()
		if err != nil || res.ExitCode != 0 || string(got) != "from inside" {
			t.Errorf("got %q: %s, %v", got, res, err)
		}
		// A port in use is reported before anything is run.
		if l, err = net.Listen("tcp4", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		res, err = r.Run(t.Context(), nsrun.Request{Command: "true"})
		if !errors.Is(err, syscall.EADDRINUSE) || res.Started {
			t.Errorf("a port that is in use: %s, %v", res, err)
		}
	})
}

// TestAllowUnix: the host's sockets are closed, but for those that are named.
func TestAllowUnix(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	sockets := []string{filepath.Join(dir, "named"), filepath.Join(dir, "other")}
	for _, name := range sockets {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
	for name, net := range map[string]netpolicy.Policy{"no network": {}, "rules": netpolicy.MustParse("192.0.2.1")} {
		t.Run(name, func(t *testing.T) {
			c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, AllowUnix: sockets[:1], Net: net, Enforcer: nsrun.BrokerEnforcer}
			needFor(t, c)
			res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: `python3 -c '
import socket, sys
for name in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(name)
        print("open")
    except OSError as e:
        print("closed")' ` + strings.Join(sockets, " ")})
			if err != nil || res.Stdout.String() != "open\nclosed\n" {
				t.Errorf("%s, %v", res, err)
			}
		})
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(dir, "missing"), "relative"} {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, AllowUnix: []string{name}})
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// TestNetworkAndEngines: the network is made again if the engine changes.
func TestNetworkAndEngines(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		at := server(t)
		for _, engine := range []overlay.Engine{overlay.EngineTmpfs, overlay.EngineCopy} {
			t.Run(engine.String(), func(t *testing.T) {
				c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Enforcer: e, Engine: engine, Net: netpolicy.MustParse(at.String())}
				needFor(t, c)
				res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: fetch(at.Port())})
				if err != nil || !strings.Contains(res.Stdout.String(), "served") {
					t.Errorf("%s, %v", res, err)
				}
			})
		}
	})
}
