//go:build linux

// Network measures the cost of network rules. It compares connections with rules, without rules, and through an HTTP
// CONNECT proxy, in turns, and prints medians. All are on the loopback device, to a server in another process. Started
// by root it measures as root, with BPF programs and with the broker, and once more as an ordinary user, with
// the broker.
//
//	go run ./bench/network [-n ROUNDS] [-only KIND]
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/netpolicy"
)

var (
	rounds = flag.Int("n", 7, "`rounds`")
	only   = flag.String("only", "", "measure this `kind` alone: connect, http, requests, stream or true")
	in     = flag.String("in", "", "for internal use: measure in this `directory`")
	role   = flag.String("role", "", "for internal use: `what` this process is")
)

const nobody = 65534

// kinds are what is measured, and how often in a round.
var kinds = []struct {
	name, unit string
	count      int
	scale      float64
}{
	{"connect", "µs", 2000, 1e-3},                     // of connect(2)
	{"http", "µs", 1000, 1e-3},                        // of a request on a connection of its own
	{"requests", "requests/s", 2000, 1},               // by four at once, each on a connection of its own
	{"stream", "MB/s", 2 << 30, 1 / float64(1000000)}, // of one connection
}

// promises are the most of direct, or the least, and the least of the proxy; zero: none.
var promises = map[string]struct{ kernel, broker, proxy float64 }{
	"connect":  {1.05, 1.6, 0},
	"http":     {0, 1.15, 0},
	"requests": {0, 0, 2},
	"stream":   {0.98, 0.98, 0},
}

func main() {
	flag.Parse()
	switch *role {
	case "":
	case "server":
		check(serve())
		return
	case "proxy":
		check(proxy())
		return
	case "client":
		check(client(flag.Args()))
		return
	case "filtered":
		check(filtered(flag.Args()))
		return
	}
	if *in != "" {
		check(measure(*in))
		return
	}
	dir, err := os.MkdirTemp("/var/tmp", "nsrun-network-")
	check(err)
	err = os.Chmod(dir, 0o755)
	if err == nil {
		err = run(dir)
	}
	_ = os.RemoveAll(dir)
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

// place makes a home and a project for a user, with this program in the project, where the sandbox has it.
func place(dir string, uid int) (self string, err error) {
	project := filepath.Join(dir, "project")
	for _, d := range []string{dir, filepath.Join(dir, "home"), project} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
		if err := os.Chown(d, uid, uid); err != nil {
			return "", err
		}
	}
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	self = filepath.Join(project, "network")
	return self, os.WriteFile(self, b, 0o755)
}

func run(dir string) error {
	users := []uint32{uint32(os.Getuid())}
	if os.Getuid() == 0 {
		users = append(users, nobody)
	}
	for _, uid := range users {
		dir := filepath.Join(dir, strconv.Itoa(int(uid)))
		self, err := place(dir, int(uid))
		if err != nil {
			return err
		}
		cmd := exec.Command(self, "-n", strconv.Itoa(*rounds), "-only", *only, "-in", filepath.Dir(self))
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}

// helper starts this program in another role, which says its address first.
func helper(self, role string) (netip.AddrPort, func(), error) {
	cmd := exec.Command(self, "-role", role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	var at netip.AddrPort
	if err == nil {
		at, err = netip.ParseAddrPort(line[:len(line)-1])
	}
	if err != nil {
		stop()
		return at, nil, fmt.Errorf("%s: %w", role, err)
	}
	return at, stop, nil
}

// A way is one way for the client to the server.
type way struct {
	name  string
	run   func(args ...string) (string, error)
	after func() error // not measured; nil: nothing
}

func measure(dir string) error {
	self := filepath.Join(dir, "network")
	at, stop, err := helper(self, "server")
	if err != nil {
		return err
	}
	defer stop()
	via, stop, err := helper(self, "proxy")
	if err != nil {
		return err
	}
	defer stop()
	direct := func(args ...string) (string, error) {
		out, err := exec.Command(self, append([]string{"-role", "client"}, args...)...).Output()
		return string(out), err
	}
	ways := []way{
		{name: "direct", run: direct},
		{name: "CONNECT proxy", run: func(args ...string) (string, error) { return direct(append(args, via.String())...) }},
		{name: "notified", run: notified(self, self, "-role", "client")},
	}
	rule, err := netpolicy.Parse("tcp:" + at.String())
	if err != nil {
		return err
	}
	enforcers := []nsrun.Enforcer{nsrun.BrokerEnforcer}
	if os.Getuid() == 0 {
		enforcers = append(enforcers, nsrun.KernelEnforcer)
	}
	plain := nsrun.NewRunner(nsrun.Config{Project: dir, Mode: nsrun.Direct})
	defer plain.Close()
	starts := []way{{name: "no network", run: sandboxed(plain, "true")}}
	for _, e := range enforcers {
		config := nsrun.Config{
			Project: dir, Mode: nsrun.Direct, Enforcer: e, Net: netpolicy.Policy{Rules: []netpolicy.Rule{rule}},
		}
		r := nsrun.NewRunner(config)
		defer r.Close()
		ways = append(ways, way{name: e.String(), run: sandboxed(r, self, "-role", "client")})
		starts = append(starts, way{name: e.String(), run: sandboxed(r, "true")})
		if e == nsrun.KernelEnforcer {
			starts = append(starts, first(config))
		}
	}
	fmt.Printf("medians of %d alternating rounds, as uid %d\n", *rounds, os.Getuid())
	for _, k := range kinds {
		if *only != "" && *only != k.name {
			continue
		}
		values := make([][]float64, len(ways))
		for round := range *rounds + 1 { // the first one warms up
			for i := range ways {
				i = (i + round) % len(ways)
				out, err := ways[i].run(k.name, strconv.Itoa(k.count), at.String())
				if err != nil {
					return fmt.Errorf("%s, %s: %w", k.name, ways[i].name, err)
				}
				var v float64
				if _, err := fmt.Sscan(out, &v); err != nil {
					return fmt.Errorf("%s, %s: %q: %w", k.name, ways[i].name, out, err)
				}
				if round > 0 {
					values[i] = append(values[i], v)
				}
			}
		}
		base, proxied := median(values[0]), median(values[1])
		for i, w := range ways {
			v := median(values[i])
			fmt.Printf("  %-10s %-14s %10.1f %-11s %6.3f of direct, %6.3f of the proxy%s\n", k.name, w.name, v*k.scale, k.unit, v/base, v/proxied, promise(k.name, w.name))
		}
	}
	if *only != "" && *only != "true" {
		return nil
	}
	return start(starts)
}

// promise says what is promised.
func promise(kind, way string) string {
	p := promises[kind]
	if way != "kernel" && way != "broker" {
		return ""
	}
	if p.proxy != 0 {
		return fmt.Sprintf("   (at least %v of the proxy)", p.proxy)
	}
	limit := p.broker
	if way == "kernel" {
		limit = p.kernel
	}
	switch {
	case limit == 0:
		return ""
	case limit < 1:
		return fmt.Sprintf("   (at least %v of direct)", limit)
	}
	return fmt.Sprintf("   (at most %v of direct)", limit)
}

// sandboxed returns what runs a command with r, and returns its output.
func sandboxed(r *nsrun.Runner, command ...string) func(...string) (string, error) {
	return func(args ...string) (string, error) {
		res, err := r.Run(context.Background(), nsrun.Request{Args: append(slices.Clone(command), args...)})
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("%s", res)
		}
		return string(res.Stdout.Head), err
	}
}

// first is the first command of a Runner.
func first(c nsrun.Config) way {
	var r *nsrun.Runner
	return way{
		name: c.Enforcer.String() + ", first",
		run: func(...string) (string, error) {
			r = nsrun.NewRunner(c)
			return sandboxed(r, "true")()
		},
		after: func() error { return r.Close() },
	}
}

// start measures what a network adds to a start.
func start(ways []way) error {
	runs := *rounds * 20
	times := make([][]float64, len(ways))
	for round := range runs + 10 {
		for i := range ways {
			i = (i + round) % len(ways)
			began := time.Now()
			if _, err := ways[i].run(); err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			took := time.Since(began)
			if after := ways[i].after; after != nil {
				if err := after(); err != nil {
					return fmt.Errorf("%s: %w", ways[i].name, err)
				}
			}
			if round >= 10 {
				times[i] = append(times[i], float64(took))
			}
		}
	}
	most := map[string]string{"kernel": "   (at most +0.5 ms)", "kernel, first": "   (at most +3 ms)", "broker": "   (at most +1 ms)"}
	base := median(times[0])
	for i, w := range ways {
		v := median(times[i])
		fmt.Printf("  %-10s %-14s %10.2f %-11s %+6.2f ms%s\n", "true", w.name, v/1e6, "ms", (v-base)/1e6, most[w.name])
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}
