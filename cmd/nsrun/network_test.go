//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// networks are the options for each kind of network that this user can have, with a rule for
// one port of the host's loopback device.
func networks(port int) map[string][]string {
	rule := fmt.Sprintf("tcp:127.0.0.1:%d", port)
	all := map[string][]string{"none": nil, "broker": {"--net-by", "broker", "--allow-net", rule}}
	if testenv.Root() {
		all["kernel"] = []string{"--net-by", "kernel", "--allow-net", rule}
	}
	return all
}

// TestHostSockets: a program of the host that obeys requests over a socket, as docker does, is no way out of the
// sandbox. Commands reach neither its socket file, wherever that is, nor its abstract name.
func TestHostSockets(t *testing.T) {
	testenv.Leaks(t, reap)
	if _, err := exec.LookPath("perl"); err != nil {
		testenv.Skip(t, "perl", "not installed")
	}
	w := newWorld(t)
	w.bin = installed(t)
	testenv.Tree(t, w.dir, "home/.docker/run/", "p/sub/")
	sockets := []string{w.path("home/docker.sock"), w.path("home/.docker/run/docker.sock"), w.path("p/docker.sock"), w.path("p/sub/docker.sock"), "@nsrun-docker-" + strconv.Itoa(os.Getpid())}
	if testenv.Root() {
		mounted(t, "tmpfs", "/run", "tmpfs", 0)
		sockets = append(sockets, "/run/docker.sock")
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, name := range sockets {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		})
	}
	client := append([]string{"perl", "-MSocket", "-e", `for my $name (@ARGV) {
	$name =~ s/^@/\0/;
	socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die $!;
	print connect($s, pack_sockaddr_un($name)) ? "open\n" : "closed\n";
}`}, sockets...)
	// Control: outside they are open.
	if got, _ := w.must(t, "p", "", client[0], client[1:]...); got != strings.Repeat("open\n", len(sockets)) {
		t.Fatalf("the control: %q", got)
	}
	for name, options := range networks(1) {
		for _, how := range []string{"--discard", "--direct"} {
			// --ro: the test's directory lies where the sandbox has its own /tmp.
			args := slices.Concat([]string{"run", "-q", how, "--ro", w.dir}, options, []string{"--"}, client)
			if got, _ := w.must(t, "p", "", w.bin+"/nsrun", args...); got != strings.Repeat("closed\n", len(sockets)) {
				t.Errorf("%s, %s: %q", name, how, got)
			}
		}
	}
}

// TestKilledNetwork: killing nsrun, which decides about the network, does not open the network: no process of the
// sandbox stays.
func TestKilledNetwork(t *testing.T) {
	w := newWorld(t)
	w.bin = installed(t)
	for name := range networks(1) {
		if name == "none" {
			name = "control"
		}
		t.Run(name, func(t *testing.T) {
			testenv.Leaks(t, reap)
			port, opened, open := connections(t)
			// One connection that stays, and ever more of them.
			script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; while :; do (exec 4<>/dev/tcp/127.0.0.1/%[1]d); done 2>&-`, port)
			run := append([]string{"run", "-q", "--discard"}, networks(port)[name]...)
			c := exec.Command(w.bin+"/nsrun", append(run, "--", "bash", "-c", script)...)
			if name == "control" {
				c = exec.Command("bash", "-c", "("+script+") & wait")
			}
			c.Dir = w.path("p")
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "GORACE=atexit_sleep_ms=0"}
			c.Stderr = os.Stderr
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Kill(-c.Process.Pid, unix.SIGKILL) }()
			testenv.Eventually(t, "connections", func() bool { return opened.Load() > 5 && open.Load() > 0 })
			_ = c.Process.Kill()
			_ = c.Wait()
			before := opened.Load()
			if name == "control" {
				testenv.Eventually(t, "more connections", func() bool { return opened.Load() > before+5 && open.Load() > 0 })
				return
			}
			// All that was started had the one that stays.
			testenv.Eventually(t, "the end of all connections", func() bool { return open.Load() == 0 })
			if name == "kernel" {
				// What was left in the kernel is removed.
				w.must(t, "p", "", w.bin+"/nsrun", append(run, "--", "true")...)
			}
		})
	}
}

// connections is a server that counts: how many connections there were, and how many are open.
func connections(t *testing.T) (port int, opened, open *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opened, open = new(atomic.Int32), new(atomic.Int32)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			opened.Add(1)
			serving.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				open.Add(-1)
			})
		}
	})
	return l.Addr().(*net.TCPAddr).Port, opened, open
}

// TestNetworkSocket: a connection as standard input, output or error, as inetd has it, is of the host's network:
// it can be connected again, to somebody else.
func TestNetworkSocket(t *testing.T) {
	testenv.Leaks(t, reap)
	if _, err := exec.LookPath("perl"); err != nil {
		testenv.Skip(t, "perl", "not installed")
	}
	w := newWorld(t)
	w.bin = installed(t)
	first, _, _ := connections(t)
	second, reached, _ := connections(t)
	attack := []string{"perl", "-MSocket", "-e", `
connect($_, "\0" x 16) and connect($_, pack_sockaddr_in(shift, inet_aton("127.0.0.1"))) and exit 0 for *STDIN, *STDOUT, *STDERR;
exit 1`, strconv.Itoa(second)}
	run := func(std int, args ...string) (status int, stderr string) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		f, err := conn.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var said strings.Builder
		c := exec.Command(args[0], args[1:]...)
		c.Stderr = &said
		switch std {
		case 0:
			c.Stdin = f
		case 1:
			c.Stdout = f
		case 2:
			c.Stderr = f
		}
		c.Dir = w.path("p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "GORACE=atexit_sleep_ms=0"}
		_ = c.Run()
		return c.ProcessState.ExitCode(), said.String()
	}
	for std, name := range []string{"input", "output", "error"} {
		if status, stderr := run(std, attack...); status != 0 {
			t.Errorf("the control: status %d, %s", status, stderr)
		}
		testenv.Eventually(t, "the control's connection", func() bool { return int(reached.Load()) == std+1 })
		for how, options := range networks(second + 1) {
			args := slices.Concat([]string{w.bin + "/nsrun", "run", "-q", "--discard"}, options, []string{"--"}, attack)
			status, stderr := run(std, args...)
			if status != 125 || std != 2 && !strings.Contains(stderr, "standard "+name+" is a network socket") {
				t.Errorf("%s, standard %s: status %d, %s", how, name, status, stderr)
			}
		}
	}
	if n := reached.Load(); n != 3 {
		t.Errorf("%d connections, of which 3 are the control's", n)
	}
}
