//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// build builds the nsrun command, with more flags.
func build(t *testing.T, file, arch string, flags ...string) {
	t.Helper()
	args := append([]string{"build", "-o", file}, flags...)
	c := exec.Command("go", append(args, "github.com/nsrun/nsrun/cmd/nsrun")...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestBegun: the sandbox of `nsrun run` is the clone that the entry point made. It has all ids that its caller's user
// namespace has for root, and one id for other users. The control is a program without the entry point, which makes the
// same sandbox in a clone with the Go runtime's memory.
func TestBegun(t *testing.T) {
	testenv.NeedCheckout(t)
	testenv.NeedNamespaces(t)
	dir := testenv.Dir(t)
	uids := []int{os.Getuid()}
	if testenv.Root() {
		uids = append(uids, 65534)
	}
	early, plain := filepath.Join(dir, "early"), filepath.Join(dir, "plain")
	build(t, early, runtime.GOARCH, "-ldflags=-E nsrun_early")
	build(t, plain, runtime.GOARCH)
	t.Run("ahead", func(t *testing.T) { testAhead(t, early, plain) })
	for _, name := range []string{"early", "plain"} {
		file := filepath.Join(dir, name)
		for _, uid := range uids {
			small, maps := pid1(t, file, uid)
			for n := 0; name == "early" && !small && n < mostStarts; n++ {
				small, maps = pid1(t, file, uid)
			}
			if small != (name == "early") {
				t.Errorf("%s, uid %d: PID 1 was cloned before the runtime started: %v", name, uid, small)
			}
			want := fmt.Sprintf("%d %d 1 %d %d 1", uid, uid, uid, uid)
			if uid == 0 {
				want = "0 0 4294967295 0 0 4294967295"
				if all, err := os.ReadFile("/proc/self/uid_map"); err == nil && !strings.HasSuffix(strings.TrimSpace(string(all)), "4294967295") {
					want = maps // of a container, in which this is no test of the ids
				}
			}
			if maps != want {
				t.Errorf("%s, uid %d: ids %q, want %q", name, uid, maps, want)
			}
		}
	}
}

// mostStarts is how often a start may need a second sandbox, which is no clone of the entry point: other tests replace
// files and sockets of the host that nsrun hides.
const mostStarts = 20

// first matches the status of a process that is PID 1 in a PID namespace below this one.
var first = regexp.MustCompile(`(?m)^NSpid:.*\s\d+\s1$`)

// pid1 runs a command and looks at PID 1 of its sandbox: whether it lacks the memory that the Go runtime reserves, and
// which ids it has.
func pid1(t *testing.T, nsrun string, uid int) (small bool, maps string) {
	t.Helper()
	home := testenv.Dir(t)
	project := filepath.Join(home, "p")
	testenv.Tree(t, home, "p/")
	for _, dir := range [...]string{home, project} {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(nsrun, "run", "--direct", "--", "sh", "-c", "cat /proc/self/uid_map /proc/self/gid_map; exec cat")
	c.Dir, c.Env = project, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: !testenv.Root()}}
	var out, errs bytes.Buffer
	c.Stderr = &errs
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1)
	for n := 0; n < 2; {
		if _, err := io.ReadFull(ready, line); err != nil {
			_ = c.Wait()
			t.Fatalf("%s, uid %d: %v\n%s", nsrun, uid, err, errs.String())
		}
		if out.Write(line); line[0] == '\n' {
			n++
		}
	}
	for _, p := range testenv.Processes() {
		if p.Parent != c.Process.Pid || p.State == "Z" {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
		if err != nil || !first.Match(status) {
			continue // nsrun has forked something else, which may have ended
		}
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(statm))[0])
		if err != nil {
			t.Fatal(err)
		}
		small = pages*os.Getpagesize() < 256<<20
	}
	_ = in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	return small, strings.Join(strings.Fields(out.String()), " ")
}
