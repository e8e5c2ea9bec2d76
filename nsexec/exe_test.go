package nsexec_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// The file of the program that starts sandboxes is outside of them, on a mount that
// may be writable. A process that executes /proc/self/exe, or a script that names it
// as its interpreter, has it open; CVE-2019-5736 was to keep it open until nobody
// executed it any more, and then to write to it.

// holdExe is a script that waits until descriptor 9 can be opened for writing, and
// writes to it; what came of it goes to the file result.
const holdExe = `for i in $(seq 25); do
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
	c.ClassicMounts = strings.Contains(how, "classic")
	if strings.Contains(how, "caller") {
		c.Share |= nsexec.User
	}
	if strings.Contains(how, "shared") {
		c.Share |= nsexec.PID
	}
	c.AsPID1 = strings.Contains(how, "pid1")
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
	for _, how := range append(hows, "control") {
		t.Run(how, func(t *testing.T) {
			leaks(t)
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "out/")
			prog := write(t, 0o755, string(b), dir, "prog")
			result := filepath.Join(dir, "out/result")
			c := exec.Command(prog, how, filepath.Join(dir, "out"))
			c.Env = append(os.Environ(), helperVars("victim")...)
			if out, err := c.CombinedOutput(); err != nil {
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
