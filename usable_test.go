//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestHostStaysUsable: while a command does its worst, another sandbox starts within three times its usual time, and
// the report names the limit that was reached.
func TestHostStaysUsable(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Skip(t, "python3", err.Error())
	}
	usual, _ := quickest(t, 20, nil)
	for name, c := range map[string]struct {
		limits nsrun.Limits
		limit  string // that is reached
		script string
		ends   bool // the command is ended for it
	}{
		"fork bomb": {nsrun.Limits{PIDs: 40}, "pids", `exec python3 -c '
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.001)'`, false},
		"memory bomb": {nsrun.Limits{Memory: 64 << 20}, "memory", `exec python3 -c '
x = []
while True: x.append(bytearray(1 << 20))'`, true},
		"tmpfs":      {nsrun.Limits{Memory: 64 << 20}, "memory", `head -c 400M /dev/zero >/tmp/x; sleep 1000`, true},
		"page cache": {nsrun.Limits{Memory: 64 << 20, Disk: 100 << 20}, "disk", `while :; do head -c 20M /dev/zero >>f; done`, true},
		"output":     {nsrun.Limits{Output: 10 << 20}, "output", `exec yes`, true},
		"disk":       {nsrun.Limits{Disk: 20 << 20}, "disk", `while :; do head -c 1M /dev/zero >>f; done`, true},
		"inodes": {nsrun.Limits{Inodes: 2000}, "inodes", `exec python3 -c '
i = 0
while True: open(str(i), "w").close(); i += 1'`, true},
		"no answer to SIGTERM": {nsrun.Limits{}, "", `trap "" TERM; while :; do sleep 1000 & wait; done`, true},
	} {
		t.Run(name, func(t *testing.T) {
			project := filepath.Join(testenv.Dir(t), "p")
			if err := os.Mkdir(project, 0o755); err != nil {
				t.Fatal(err)
			}
			var at unix.Statfs_t
			if err := unix.Statfs(project, &at); err != nil {
				t.Fatal(err)
			}
			inMemory := name == "page cache" && at.Type == unix.TMPFS_MAGIC
			if c.limits != (nsrun.Limits{}) {
				c.limits.Nice = 19 // as who runs what may do its worst gives it
			}
			config := nsrun.Config{
				Project: project, After: nsrun.Discard, NoPlayground: true, StateDir: filepath.Join(filepath.Dir(project), "state"),
				Limits: c.limits, Timeout: time.Minute, Grace: 100 * time.Millisecond, // which nothing reaches
			}
			if !c.ends || c.limit == "" {
				config.Timeout = time.Second
			}
			res, during, starts := meanwhile(t, config, c.script)
			if inMemory && limitOf(t, res, "memory").By != "nsrun" {
				c.limit = "memory" // the kernel counts the files of a tmpfs
			}
			// On a busy machine it may have had no time for its worst.
			for config.Timeout < 4*time.Minute && (!res.Started || c.limit != "" && res.TimedOut && unreached(t, res, c.limit)) {
				config.Timeout *= 4
				res, during, starts = meanwhile(t, config, c.script)
			}
			t.Logf("another sandbox starts in %s, usually in %s", during, usual)
			if starts >= 5 && during > 3*usual && testenv.Long() { // else it has ended before it was noticed, or others are busy
				t.Errorf("another sandbox starts in %s, usually in %s", during, usual)
			}
			if c.limit == "" {
				if !res.TimedOut || res.Duration > config.Timeout+time.Minute {
					t.Errorf("the command ran for %s: %+v", res.Duration, res)
				}
				return
			}
			l := limitOf(t, res, c.limit)
			if known := l.By != "rlimit"; known && (!l.Hit || l.Killed != c.ends && l.By != "nsrun") || c.ends && res.ExitCode != 137 {
				t.Errorf("%+v, exit code %d\n%s", l, res.ExitCode, res.Stderr)
			}
		})
	}
}

// meanwhile runs a command. It returns how long the quickest start during that time took, and how many starts there
// were.
func meanwhile(t *testing.T, config nsrun.Config, script string) (res nsrun.Result, during time.Duration, starts int) {
	t.Helper()
	r := nsrun.NewRunner(config)
	defer r.Close()
	x, err := r.Start(t.Context(), nsrun.Request{Command: script})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		testenv.Skip(t, "cgroup controllers", err.Error())
	case errors.Is(err, context.DeadlineExceeded): // before it began
		return res, 0, 0
	case err != nil:
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = x.Wait() }()
	during, starts = quickest(t, 20, ended)
	<-ended
	if res, err = x.Wait(); err != nil {
		t.Error(err)
	}
	return res, during, starts
}

// unreached reports whether a limit that is known to be reached or not was not.
func unreached(t *testing.T, res nsrun.Result, limit string) bool {
	t.Helper()
	l := limitOf(t, res, limit)
	return l.By != "rlimit" && !l.Hit
}

// quickest returns how long the quickest of n starts takes, or of those that begin before until is closed, and their
// number.
func quickest(t *testing.T, n int, until <-chan struct{}) (best time.Duration, starts int) {
	t.Helper()
	r := nsrun.NewRunner(nsrun.Config{NoPlayground: true})
	defer r.Close()
	best = time.Hour
	for starts = range n {
		select {
		case <-until:
			return best, starts
		default:
		}
		began := time.Now()
		if _, err := r.Run(context.WithoutCancel(t.Context()), nsrun.Request{Args: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	return best, n
}
