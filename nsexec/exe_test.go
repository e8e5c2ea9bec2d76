//go:build linux

package nsexec_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// The file of the program that starts sandboxes is outside of them, on a mount that may be writable. A process that
// executes /proc/self/exe, or a script that names it as its interpreter, has it open. CVE-2019-5736 was to keep it open
// until no process executed it any more, and then to write to it.

// holdExe is a script that waits until descriptor 9 can be opened for writing, and
// writes to it; what came of it goes to the file result.
const holdExe = `for i in 1 2 3 4 5 6 7 8 9 10; do
	if echo overwritten 2>/dev/null >> /proc/self/fd/9; then echo written > "$0"; exit; fi
	sleep 0.01
done 2>/dev/null
echo refused > "$0"`

// helpHold keeps its own program's file open while it executes the script.
func helpHold(args []string) int {
	f, err := os.Open("/proc/self/exe")
	if err == nil {
		err = unix.Dup2(int(f.Fd()), 9)
	}
	if err == nil {
		err = unix.Exec("/bin/sh", []string{"sh", "-c", holdExe, args[0]}, []string{"PATH=/usr/bin:/bin"})
	}
	return complain(err)
}

// helpVictim is the program that starts a sandbox in which it is executed itself:
// args are how, and the directory for the result.
func helpVictim(args []string) int {
	how, dir := args[0], args[1]
	reexec.InProcess = how != "embedder" // else it is not this program that PID 1 executes
	result := filepath.Join(dir, "result")
	if how == "control" {
		c := exec.Command("/proc/self/exe", result)
		c.Env = append(os.Environ(), helperVars("hold")...)
		return complain(c.Start())
	}
	c := nsexec.Command("/proc/self/exe", result)
	c.Mounts = base(mounts.Bind(dir, dir))
	if strings.Contains(how, "shared") { // where a procfs cannot be mounted
		c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Bind(dir, dir)}
	}
	c.Env = append(nsexec.BaseEnv(), helperVars("hold")...)
	sandbox.Of(c).ClassicMounts = strings.Contains(how, "classic")
	if strings.Contains(how, "caller") {
		c.Share |= nsexec.User
	}
	if strings.Contains(how, "shared") {
		c.Share |= nsexec.PID
	}
	sandbox.Of(c).AsPID1 = strings.Contains(how, "pid1")
	if c.Background = strings.Contains(how, "background"); c.Background {
		return complain(c.Start())
	}
	return complain(c.Run())
}

func complain(err error) int {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// TestOverwriteSelf: nobody inside can overwrite the program that starts sandboxes
// through /proc/self/exe, not even after that has ended (CVE-2019-5736). A PID 1 that
// executes the same file is in the way; where there is none, and the command goes on
// after its caller's end, nothing is: SECURITY.md has it.
func TestOverwriteSelf(t *testing.T) {
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	hows := []string{"plain", "classic", "pid1", "shared", "background", "background classic", "background pid1", "background shared"}
	if testenv.Root() {
		for _, how := range hows {
			hows = append(hows, how+" caller's user namespace")
		}
	}
	for _, how := range append(hows, "control", "embedder") {
		t.Run(how, func(t *testing.T) {
			leaks(t)
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "out/")
			prog := write(t, 0o755, string(b), dir, "prog")
			result := filepath.Join(dir, "out/result")
			c := exec.Command(prog, how, filepath.Join(dir, "out"))
			c.Env = append(os.Environ(), helperVars("victim")...)
			out, err := c.CombinedOutput()
			if how == "embedder" {
				// Inside it is the launcher's image, which does nothing, and is sealed.
				if err == nil || !strings.Contains(string(out), "exit status 125") {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			testenv.Eventually(t, "a result", func() bool { return exists(result) })
			said, err := os.ReadFile(result)
			if err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(prog)
			if err != nil {
				t.Fatal(err)
			}
			overwritten := !bytes.Equal(b, after)
			exception := strings.HasPrefix(how, "background ") && (strings.Contains(how, "pid1") || strings.Contains(how, "shared"))
			if want := how == "control"; overwritten != want && !exception {
				t.Errorf("overwritten: %v; inside it was %s", overwritten, said)
			}
		})
	}
}

// helpScan tries every process that executes the program in its first argument,
// again and again until there is a file with the name in the second: whether it can
// open that program's file, reach the process's root, descriptors or memory. It says
// of how many it could not, and what it could. Each round that has found one of a kind leaves a file that says so.
func helpScan(args []string) int {
	prog, done, ours := args[0], args[1], args[2]
	said, seen := make(map[string]bool), make(map[string]bool)
	for !exists(done) {
		if len(seen) > 0 {
			_ = os.WriteFile(done+".closed", nil, 0o644)
		}
		if len(said) > 0 {
			_ = os.WriteFile(done+".open", nil, 0o644)
		}
		procs, _ := os.ReadDir("/proc")
		for _, p := range procs {
			if _, err := strconv.Atoi(p.Name()); err != nil {
				continue
			}
			dir := "/proc/" + p.Name()
			link, err := os.Readlink(dir + "/exe")
			setup := false
			if cmdline, _ := os.ReadFile(dir + "/cmdline"); strings.HasPrefix(string(cmdline), "nsrun:") {
				if !descends(p.Name(), ours) {
					continue // of somebody else's sandbox: other tests run beside this one
				}
				if setup = err == nil && strings.HasPrefix(link, "/memfd:"); err != nil {
					seen[dir] = true
				}
			}
			if link != prog && !setup {
				continue
			}
			said["exe"] = true
			if f, err := os.OpenFile(dir+"/mem", os.O_RDWR, 0); err == nil {
				f.Close()
				said["mem"] = true
			}
		}
	}
	fmt.Println(len(seen), slices.Sorted(maps.Keys(said)))
	return 0
}

// descends reports whether a process was started by another one, or by what that has started.
func descends(pid, from string) bool {
	for pid != from {
		p, ok := testenv.FindProcess(pid)
		if !ok || p.Parent == 0 {
			return false
		}
		pid = strconv.Itoa(p.Parent)
	}
	return true
}

// TestSetupIsClosed: root without capabilities, in a sandbox that sees the caller's
// processes, does not get at those that set up other sandboxes. They are as powerless
// as it is, just before they execute their commands.
func TestSetupIsClosed(t *testing.T) {
	testenv.NeedRoot(t) // nobody else's sandboxes share a user namespace
	bothWays(t, func(t *testing.T, classic bool) {
		b, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		var dir string
		// start starts a helper where all can see it.
		start := func(file, name string, args ...string) (*nsexec.Cmd, *bytes.Buffer) {
			var out bytes.Buffer
			c := nsexec.Command(file, args...)
			c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Bind(dir, dir)}
			c.Env = append(nsexec.BaseEnv(), helperVars(name)...)
			c.Share, sandbox.Of(c).ClassicMounts = nsexec.User|nsexec.PID, classic
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return c, &out
		}
		for _, control := range []bool{false, true} {
			dir = testenv.Dir(t)
			done := filepath.Join(dir, "done")
			// A copy of this run's own: another one may have powerless processes too.
			own := write(t, 0o755, string(b), dir, "own")
			c, out := start(write(t, 0o755, string(b), dir, "scanner"), "scan", own, done, strconv.Itoa(os.Getpid()))
			command, runs := "/bin/true", rounds(150)
			found := func() bool { return exists(done + ".closed") }
			if control {
				command, runs = own, 20 // what is started stays what it was
				found = func() bool { return exists(done+".closed") && exists(done+".open") }
			}
			// On a busy machine the scanner may not have had a processor yet.
			for end := time.Now().Add(testenv.Patience); runs > 0 || !found() && time.Now().Before(end); runs-- {
				c, _ := start(command, "files")
				if err := c.Wait(); err != nil {
					t.Error(err)
				}
			}
			write(t, 0o644, "", done)
			if err := c.Wait(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if got := strings.Contains(out.String(), "exe"); got != control || strings.HasPrefix(out.String(), "0 ") {
				t.Errorf("control %v: the command saw %s of the processes of other sandboxes", control, out)
			}
		}
	})
}
