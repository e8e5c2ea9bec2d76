//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// says is a request for a command that fails with lines on standard error.
func says(lines string) nsrun.Request {
	return nsrun.Request{Args: []string{"/bin/sh", "-c", `printf '%s\n' "$1" >&2; exit 1`, "sh", lines}}
}

// TestRefusalsTellNothing: a command that names paths in its messages does not learn from the refusals where links lead
// that it does not see: hidden ones, and those of processes outside.
func TestRefusalsTellNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "home/.ssh/", "home/.ssh/k-zebra: key", "home/.ssh/link => k-zebra", "work-quagga/", "work-quagga/x", "blocked/", "blocked/k-zebra: key", "blocked/link => k-zebra")
	other := exec.Command("sleep", "600")
	other.Dir = filepath.Join(dir, "work-quagga")
	f, err := os.Open(filepath.Join(dir, "home/.ssh/k-zebra"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other.ExtraFiles = []*os.File{f}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	proc := fmt.Sprintf("/proc/%d/", other.Process.Pid)
	var lines []string
	for _, name := range []string{dir + "/home/.ssh/link", dir + "/blocked/link", proc + "cwd", proc + "cwd/x", proc + "fd/3", proc + "root" + dir + "/home/.ssh/link"} {
		if _, err := os.Stat(name); err != nil { // the control
			t.Fatalf("outside: %v", err)
		}
		for _, text := range []string{"cat: %s: No such file or directory", "cat: %s: Permission denied", "sh: cannot create %s/new: Read-only file system", "touch: %s/new: No such file or directory",
			"ln: failed to create hard link '%s/new' => 'a': Invalid cross-device link", "gio: file://%s/new: Trashing on system internal mounts is not supported"} {
			lines = append(lines, fmt.Sprintf(text, name))
		}
	}
	for _, backend := range attacked(t) {
		for _, why := range []bool{false, true} {
			if why && backend == nsrun.LandlockBackend {
				continue // there it is refused
			}
			c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Backend: backend, Why: why,
				Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: dir + "/blocked"}}}
			needFor(t, c)
			q := says(strings.Join(lines, "\n"))
			if why {
				q = nsrun.Request{Command: fmt.Sprintf("cat %s/home/.ssh/link %s/blocked/link %scwd/x %sfd/3", dir, dir, proc, proc)}
			}
			res, err := runner(t, c).Run(t.Context(), q)
			if err != nil || res.ExitCode == 0 {
				t.Fatalf("%v: %v, %s", backend, err, res)
			}
			told := false
			for _, r := range res.Refusals {
				told = told || r.Rule == "secret" // so messages were looked at
				if text := r.String() + r.Target + r.Flag; strings.Contains(text, "quagga") || strings.Contains(text, "zebra") {
					t.Errorf("%v, why %t: %s", backend, why, text)
				}
			}
			if !told {
				t.Errorf("%v, why %t: nothing is told of hidden files: %v", backend, why, res.Refusals)
			}
		}
	}
}

// TestRefusalsEnd: nsrun looks up a limited number of names for what a command writes. Links in the project, which an
// earlier command left, can make each path as long as the kernel allows.
func TestRefusalsEnd(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "d/", "l39: x")
	p := filepath.Join(dir, "p")
	for i := range 39 {
		if err := os.Symlink(strings.Repeat("d/../", 800)+fmt.Sprintf("l%d", i+1), filepath.Join(p, fmt.Sprintf("l%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	// The control. If mounts change meanwhile, the kernel begins anew, and counts the links that it has followed twice.
	if !testenv.Poll(testenv.Patience, func() (ok bool) {
		b, err := os.ReadFile(filepath.Join(p, "l0"))
		return err == nil && string(b) == "x"
	}) {
		t.Fatal("the links lead nowhere")
	}
	many := nsrun.Request{Command: `for i in $(seq 1000); do echo "Read-only file system"; done >&2; exit 1 # ` + strings.Repeat("/x ", 40_000)}
	for name, q := range map[string]nsrun.Request{
		"a link":  says(strings.Repeat("cat: "+p+"/l0: No such file or directory\n", 100)),
		"a write": says(strings.Repeat("sh: cannot create "+p+"/l0"+strings.Repeat("/x", 1000)+": Read-only file system\n", 20)),
		"no name": many, // so the command line is searched
	} {
		t.Run(name, func(t *testing.T) {
			r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard})
			end := make(chan error, 1)
			go func() {
				_, err := r.Run(t.Context(), q)
				end <- err
			}()
			select {
			case err := <-end:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(testenv.Patience):
				t.Fatal("it takes too long")
			}
		})
	}
}
