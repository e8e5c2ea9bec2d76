//go:build linux

package nsexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestMany starts and ends many sandboxes.
func TestMany(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		n := 50
		if testenv.Long() && !testenv.RaceDetector {
			n = 500
		}
		for i := range n {
			c := nsexec.Command("true")
			c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
			sandbox.Of(c).ClassicMounts = classic
			if i%10 == 9 {
				c.Path = "/no/such/program" // and some that fail late
			}
			if err := c.Run(); (err != nil) != (i%10 == 9) {
				t.Fatalf("%d: %v", i, err)
			}
		}
	})
}

// TestAtOnce starts sandboxes with different settings from many goroutines.
func TestAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		const workers, rounds = 8, 8
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range rounds {
					host := fmt.Sprintf("w%di%d", w, i)
					c := nsexec.Command("sh", "-c", `echo $(cat /proc/sys/kernel/hostname) $X $(id -u) $(cat /mnt/f); exit $Y`)
					c.Mounts = base(mounts.File("/mnt/f", []byte(host+"\n")))
					sandbox.Of(c).ClassicMounts = classic
					c.Hostname = host
					c.Env = append(nsexec.BaseEnv(), "X="+host, fmt.Sprintf("Y=%d", w))
					uid := os.Getuid()
					switch w % 4 {
					case 1:
						c.Share = nsexec.Net | nsexec.IPC
					case 2:
						c.UIDMap, c.GIDMap = []nsexec.IDMap{{77, uint32(uid), 1}}, []nsexec.IDMap{{77, uint32(os.Getgid()), 1}}
						uid = 77
					case 3:
						sandbox.Of(c).AsPID1 = true
						c.Capabilities = nsexec.AllCapabilities()
					}
					out, err := c.CombinedOutput()
					if want := fmt.Sprintf("%s %s %d %s\n", host, host, uid, host); string(out) != want {
						t.Errorf("got %q, want %q: %v", out, want, err)
					}
					if ee, ok := errors.AsType[*exec.ExitError](err); w == 0 && err != nil || w > 0 && (!ok || ee.ExitCode() != w) {
						t.Errorf("exit status %v, want %d", err, w)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestManyBinds: more sources than may be open at once, and a Program that is too
// large for a message.
func TestManyBinds(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		write(t, 0o644, "content", dir, "f")
		c := shell("cat /mnt/d499/f; cat /mnt/file498; ls /mnt | wc -l; echo x 2>/dev/null > /mnt/d17/f || echo read-only")
		sandbox.Of(c).ClassicMounts = classic
		for i := range 250 {
			c.Mounts = append(c.Mounts, mounts.ROBind(dir, fmt.Sprintf("/mnt/d%d", 2*i+1)), mounts.ROBind(dir+"/f", fmt.Sprintf("/mnt/file%d", 2*i)))
		}
		check(t, c, "contentcontent500\nread-only")
	})
}

// TestBackgroundDies: processes in the background end with the command.
func TestBackgroundDies(t *testing.T) {
	leaks(t)
	for _, script := range []string{
		"sleep 1000 & echo; exit 3", "(sleep 1000 &) ; echo; exit 3", "setsid sleep 1000 & echo; exit 3",
		"trap '' TERM HUP INT; sleep 1000 & echo; exit 3", "sleep 1000 & echo; kill -KILL $$",
	} {
		c := shell(script)
		// The pipe tells it: a read returns the end of the file when no process has the other end any more.
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		b, err := bufio.NewReader(out).ReadString(0)
		if b != "\n" || err == nil {
			t.Errorf("%q, %v", b, err)
		}
		if err := c.Wait(); err == nil {
			t.Errorf("%s: no error", script)
		}
	}
}

// TestBackground: where it is asked for, they do not, and Wait returns all the same.
func TestBackground(t *testing.T) {
	leaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := shell("(read x; echo late >&4) <&3 & echo early >&4; exit 3")
	c.Background = true
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	c.ExtraFiles = []*os.File{inR, w}
	err = c.Run()
	w.Close()
	inR.Close()
	if err == nil || err.Error() != "exit status 3" {
		t.Errorf("got %v", err)
	}
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "early\n" {
		t.Errorf("%q, %v", line, err)
	}
	fmt.Fprintln(inW, "go on")
	if line, err := out.ReadString('\n'); line != "late\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := out.ReadByte(); err == nil {
		t.Error("more is written")
	}
}

// commandOf is the process id of the command below a PID 1.
func commandOf(t testing.TB, pid1 int) int {
	t.Helper()
	found := 0
	testenv.Eventually(t, "a command below PID 1", func() bool {
		for _, p := range testenv.Processes() {
			if p.Parent == pid1 {
				found = p.Pid
			}
		}
		return found != 0
	})
	return found
}

// TestKilledEmbedder: kill -9 of the program ends all that it started.
func TestKilledEmbedder(t *testing.T) {
	kinds := []string{"plain", "pid1", "session", "shared", "credential", "capabilities"}
	if testenv.Root() {
		kinds = append(kinds, "other", "other with capabilities")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			leaks(t)
			c := exec.Command(exe, kind)
			c.Env = append(os.Environ(), helperVars("embed")...)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("the helper says %q", line)
			}
			all := []int{pid, commandOf(t, pid)}
			for _, p := range testenv.Processes() {
				if p.Parent == c.Process.Pid {
					all = append(all, p.Pid) // the launcher, and what waits
				}
			}
			if len(all) < 4 {
				t.Errorf("only %d processes: %v", len(all), all)
			}
			for i, pid := range all {
				if p, ok := testenv.FindProcess(strconv.Itoa(pid)); !ok || !testenv.Alive(pid) {
					t.Errorf("process %d of %v is gone already: %+v", i, all, p)
				}
			}
			_ = c.Process.Kill()
			_ = c.Wait()
			for _, pid := range all[:1] {
				testenv.Eventually(t, fmt.Sprintf("the end of %d", pid), func() bool { return !testenv.Alive(pid) })
			}
			if kind == "shared" {
				// Without a PID namespace nobody can end what the command left.
				_ = unix.Kill(all[1], unix.SIGKILL)
			}
			for _, pid := range all[1:] {
				testenv.Eventually(t, fmt.Sprintf("the end of %d", pid), func() bool { return !testenv.Alive(pid) })
			}
		})
	}
}

// TestKilledLauncher: commands that run go on, and the next one starts.
func TestKilledLauncher(t *testing.T) {
	leaks(t)
	c := shell("echo; read x; echo $x")
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
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		spare(t) // the launcher has nothing to do then
		if err := unix.Kill(launcher(t), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		next := shell("echo next")
		if i%2 == 0 {
			next.Share = nsexec.Net // no sandbox like that waits
		}
		if i%4 == 0 {
			next.Share |= nsexec.IPC
		}
		check(t, next, "next")
		// The launcher comes back with what is made for the one after it.
		if err := shell("true").Run(); err != nil {
			t.Error(err)
		}
		last := nsexec.Command("true")
		last.Mounts = base()
		last.Share = nsexec.UTS
		if err := last.Run(); err != nil {
			t.Error(err)
		}
	}
	fmt.Fprintln(in, "still here")
	if line, err := lines.ReadString('\n'); line != "still here\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// spare is the process id of a sandbox that waits for a command.
func spare(t testing.TB) (pid int) {
	t.Helper()
	testenv.Eventually(t, "a sandbox that waits", func() bool {
		for _, p := range testenv.Processes() {
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Pid)); p.Parent == os.Getpid() && p.State == "S" &&
				strings.HasPrefix(string(b), "nsrun:launcher\x00") && !isLauncher(p.Pid) && commandless(p.Pid) {
				pid = p.Pid
			}
		}
		return pid != 0
	})
	return pid
}

// commandless says that a clone has no command yet.
func commandless(pid int) bool {
	for _, p := range testenv.Processes() {
		if p.Parent == pid {
			return false
		}
	}
	return true
}

// TestKilledSpare: somebody kills the sandbox that waits for the next command.
func TestKilledSpare(t *testing.T) {
	for _, pid1 := range []bool{false, true} {
		leaks(t)
		for range 10 {
			if err := shell("true").Run(); err != nil {
				t.Fatal(err)
			}
			pid := spare(t)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "its end", func() bool { return !testenv.Alive(pid) })
			c := shell("echo fine")
			sandbox.Of(c).AsPID1 = pid1
			check(t, c, "fine")
		}
	}
}

// TestShutdown: it ends the waiting sandboxes, leaves running ones, and the next Start works.
func TestShutdown(t *testing.T) {
	leaks(t)
	nsexec.Shutdown()
	nsexec.Shutdown()
	c := shell("echo; read x; exit 4")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	started(t, c)
	nsexec.Shutdown()
	for _, p := range testenv.Processes() {
		if p.Parent == os.Getpid() && p.Pid != c.Process.Pid {
			t.Errorf("there is still %+v", p)
		}
	}
	check(t, shell("echo again"), "again")
	fmt.Fprintln(in)
	if err := c.Wait(); err == nil || err.Error() != "exit status 4" {
		t.Errorf("got %v", err)
	}
}

// TestShutdownMeanwhile: Shutdown and Start at the same time do no harm.
func TestShutdownMeanwhile(t *testing.T) {
	leaks(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				if err := shell("true").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		nsexec.Shutdown()
	}
	wg.Wait()
}

// TestCancelWhileStarting: a context that ends at any moment leaves nothing.
func TestCancelWhileStarting(t *testing.T) {
	leaks(t)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		c := nsexec.CommandContext(ctx, "sleep", "100")
		c.Mounts = base()
		if err := c.Run(); err == nil {
			t.Error("no error")
		}
		cancel()
	}
}

// TestLauncherIsSmall: the launcher is not this program, has one thread, nothing of this
// program's environment, and no descriptor but its socket.
func TestLauncherIsSmall(t *testing.T) {
	testenv.NeedRoot(t) // nobody else may look
	leaks(t)
	t.Setenv("NSRUN_TEST_SECRET", "do not tell")
	if err := shell("true").Run(); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d/", launcher(t))
	if link, err := os.Readlink(dir + "exe"); err != nil || !strings.HasPrefix(link, "/memfd:nsrun") {
		t.Errorf("it executes %s, %v", link, err)
	}
	if env, err := os.ReadFile(dir + "environ"); err != nil || len(env) > 0 {
		t.Errorf("its environment is %q, %v", env, err)
	}
	for what, want := range map[string]int{"task": 1, "fd": 4} {
		testenv.Eventually(t, fmt.Sprintf("%d in %s", want, what), func() bool { // it may be about to clone
			list, err := os.ReadDir(dir + what)
			return err == nil && len(list) == want
		})
	}
	// The name alone means nothing any more.
	c := exec.Command(exe, "-test.run=^$")
	c.Args[0] = "nsrun:launcher"
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") && !strings.Contains(string(out), "no tests") {
		t.Errorf("%v, %q", err, out)
	}
}
