//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestFIFOs: a command that puts a FIFO where nsrun reads the project does not block later commands. They run, or an
// error names the FIFO. The control opens the FIFO like a file.
func TestFIFOs(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	var repository []string
	for _, git := range []string{".git", "sub/.git", "bare", ".git/modules/m"} {
		repository = append(repository, git+"/HEAD: ref: refs/heads/main\n", git+"/objects/", git+"/refs/", git+"/hooks/", git+"/config: [core]\n\thooksPath = hooks\n")
	}
	repository = append(repository, ".gitmodules: [submodule \"m\"]\n\tpath = m\n\turl = x\n", "m/", "m/.git: gitdir: ../.git/modules/m\n", "hooks/", ".husky/_/",
		"sub/hooks/", ".git/worktrees/w/HEAD: x\n", ".git/worktrees/w/gitdir: /nowhere/.git\n", ".nsrun.toml: ")
	modes := map[string]nsrun.Config{"overlay": {}, "direct": {Mode: nsrun.Direct}}
	if features.Has(features.LandlockScopes) {
		modes["landlock"] = nsrun.Config{Mode: nsrun.Direct, Backend: nsrun.LandlockBackend}
	}
	dir := place(t)
	for _, name := range []string{
		".git", ".git/HEAD", ".git/hooks", ".git/config", ".git/commondir", ".git/index", ".git/modules", ".git/modules/m/hooks", ".git/worktrees", ".git/worktrees/w/gitdir",
		".gitmodules", "hooks", "m/.git", "sub/.git/hooks", "sub/.git/modules", "bare/HEAD", ".nsrun.toml",
	} {
		p := filepath.Join(dir, "p")
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
		testenv.Tree(t, dir, "p/")
		testenv.Tree(t, p, repository...)
		at := filepath.Join(p, name)
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(at, 0o600); err != nil {
			t.Fatal(err)
		}
		for mode, c := range modes {
			if mode == "landlock" && strings.Contains(name, "/") {
				continue // which it does not look at
			}
			c.Project, c.After = p, nsrun.Discard
			if ended(t, at, patience, func() {
				r := nsrun.NewRunner(c)
				defer r.Close()
				if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil && res.ExitCode != 0 {
					t.Errorf("%s, %s: %v", mode, name, res)
				}
			}) == waited {
				t.Errorf("%s: %s blocks the command", mode, name)
			}
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if ended(t, fifo, time.Millisecond, func() {
		if f, err := os.Open(fifo); err == nil {
			_ = f.Close()
		}
	}) != waited {
		t.Error("the control: os.Open does not block")
	}
}

const (
	waited   = true
	patience = testenv.Patience
)

// ended calls f, and reports whether it had to be given what it waits for: somebody who opens a FIFO for writing.
func ended(t testing.TB, fifo string, patience time.Duration, f func()) (helped bool) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	again := time.NewTicker(patience)
	defer again.Stop()
	for {
		select {
		case <-done:
			return helped
		case <-again.C:
		}
		helped = true
		if fd, err := unix.Open(fifo, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			defer unix.Close(fd)
		}
	}
}
