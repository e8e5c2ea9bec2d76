//go:build linux

package nsrun_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Functions and values of the program that uses a Runner: writers, Recorders, Approvers, slices.

// alone is a writer that does not expect two goroutines. It waits for a second one for a moment.
type alone struct {
	wait   time.Duration
	inside atomic.Int32
	once   sync.Once
	second chan struct{} // closed when one comes
	n      atomic.Int64
}

func (w *alone) Write(p []byte) (int, error) {
	if w.inside.Add(1) > 1 {
		w.once.Do(func() { close(w.second) })
	}
	defer w.inside.Add(-1)
	w.n.Add(int64(len(p)))
	select {
	case <-w.second:
	case <-time.After(w.wait):
	}
	return len(p), nil
}

// disturbed reports whether a second one came.
func (w *alone) disturbed() bool {
	select {
	case <-w.second:
		return true
	default:
		return false
	}
}

// TestSameWriter: as in os/exec, a writer that gets both kinds of output is called by one goroutine at a time.
func TestSameWriter(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	for name, c := range map[string]nsrun.Config{
		"sandbox": {Project: p, After: nsrun.Discard},
		"limit":   {Project: p, After: nsrun.Discard, Limits: nsrun.Limits{Output: 1 << 20}},
		"none":    {Sandbox: nsrun.SandboxDisabled},
	} {
		w := &alone{wait: 20 * time.Millisecond, second: make(chan struct{})}
		q := nsrun.Request{Command: "echo o; echo e >&2; sleep 0.01; echo o; echo e >&2", Stdout: w, Stderr: w}
		res, err := runner(t, c).Run(t.Context(), q)
		if err != nil || string(res.Stdout.Bytes()) != "o\no\n" || string(res.Stderr.Bytes()) != "e\ne\n" || w.n.Load() != 8 || w.disturbed() {
			t.Errorf("%s: %v, %q; the writer got %d bytes, from two at once: %v", name, err, res, w.n.Load(), w.disturbed())
		}
	}
}

// TestRequestReused: a Request can be changed and used again as soon as its command has been started.
func TestRequestReused(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	rec := &requests{}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Recorder: rec, Approver: &answers{answer: nsrun.Allow}})
	q := nsrun.Request{Args: []string{"sh", "-c", "read x; exit 3"}, Env: []string{"A=1"}, Paths: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: "/etc"}}}
	x, err := r.Start(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.Args[2], q.Env[0], q.Paths[0].Pattern = "true", "A=2", "/usr"
	if res, err := x.Wait(); err != nil || res.ExitCode != 3 {
		t.Errorf("%v, %v", res, err)
	}
	if want := `["sh" "-c" "read x; exit 3"] ["sh" "-c" "read x; exit 3"] ["A=1"] [{read-only /etc}]`; rec.told != want {
		t.Errorf("the Recorder was told %s", rec.told)
	}
}

// requests is a Recorder that keeps what was asked for.
type requests struct {
	recorder
	told string
}

func (r *requests) Record(_ context.Context, rec nsrun.Record) error {
	r.told = fmt.Sprintf("%q %q %q %v", rec.Args, rec.Request.Args, rec.Request.Env, rec.Request.Paths)
	return nil
}

// panics is an Approver, a Recorder and a Progress that panics as long as it is told to.
type panics struct {
	recorder
	on bool
}

func (p *panics) may() {
	if p.on {
		panic("of the caller's")
	}
}

func (p *panics) Approve(context.Context, nsrun.Question) (nsrun.Answer, error) {
	p.may()
	return nsrun.Allow, nil
}

func (p *panics) Record(context.Context, nsrun.Record) error {
	p.may()
	return nil
}

// recovered calls f, and returns what it panicked with.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// TestPanics: if a function of the caller's panics, and somebody recovers, the Runner can be used as before, and holds
// nothing. What the command wrote is kept.
func TestPanics(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	p := filepath.Join(dir, "p")
	t.Setenv("DOCKER_HOST", "unix://"+listening(t, filepath.Join(dir, "docker.sock")))
	limits := nsrun.Limits{OpenFiles: 100}
	for _, c := range []struct {
		name string
		c    nsrun.Config
		q    nsrun.Request
		kept bool
	}{
		{"a question", nsrun.Config{}, nsrun.Request{Network: true}, false},
		{"a question about a socket", nsrun.Config{AllowUnix: []string{nsrun.Docker}}, nsrun.Request{}, false},
		{"a Recorder", nsrun.Config{After: nsrun.Commit}, nsrun.Request{}, true},
		{"a Recorder, and a session for all", nsrun.Config{Limits: limits, Watch: true}, nsrun.Request{}, true},
		{"a Recorder, and nothing is kept", nsrun.Config{After: nsrun.Discard}, nsrun.Request{}, true},
	} {
		callers := &panics{on: true}
		c.c.Project, c.c.Approver, c.c.Recorder = p, callers, callers
		r := nsrun.NewRunner(c.c)
		c.q.Command = "echo 1 >f"
		if v := recovered(func() { _, _ = r.Run(t.Context(), c.q) }); v != "of the caller's" {
			t.Errorf("%s: recovered %v", c.name, v)
		}
		callers.on = false
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		c.q.Command = "echo fine >g; cat g"
		if res, err := r.Run(ctx, c.q); err != nil || res.String() != "fine\n" {
			t.Errorf("%s: the next command: %q, %v", c.name, res, err)
		}
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-ctx.Done():
			t.Fatalf("%s: Close hangs", c.name)
		}
		cancel()
		kept := false
		for i, err := range overlay.List("") {
			if err != nil || i.Busy {
				t.Errorf("%s: %+v, %v", c.name, i, err)
			}
			s, err := overlay.Open("", i.ID)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			for ch := range s.Changes() {
				kept = kept || ch.Path == "f"
			}
			if err := s.Remove(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if kept != c.kept {
			t.Errorf("%s: the changes are kept: %v", c.name, kept)
		}
	}
}

// closes is an Approver that closes the Runner before it answers.
type closes struct{ r *nsrun.Runner }

func (c *closes) Approve(context.Context, nsrun.Question) (nsrun.Answer, error) {
	return nsrun.Allow, c.r.Close()
}

// TestClosedMeanwhile: a command that finds its Runner closed while it is prepared runs to its end, or is not run, and
// then the error is ErrClosed.
func TestClosedMeanwhile(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	t.Setenv("DOCKER_HOST", "unix://"+listening(t, filepath.Join(dir, "docker.sock")))
	for name, c := range map[string]nsrun.Config{
		"":       {},
		"limits": {Limits: nsrun.Limits{OpenFiles: 100}},
		"watch":  {Watch: true},
		"commit": {After: nsrun.Commit},
	} {
		a := &closes{}
		c.Project, c.AllowUnix, c.Approver = filepath.Join(dir, "p"), []string{nsrun.Docker}, a
		if c.After == nsrun.Keep {
			c.After = nsrun.Discard // with Keep, Close waits for the command
		}
		a.r = nsrun.NewRunner(c)
		if res, err := a.r.Run(t.Context(), nsrun.Request{Command: "echo fine"}); err != nil && !errors.Is(err, nsrun.ErrClosed) || err == nil && res.String() != "fine\n" {
			t.Errorf("%s: %q, %v", name, res, err)
		}
		if err := a.r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEventsLeft: Wait does not wait for ever for who asked for events and does not take them, if the context has
// ended. Whoever goes on later is told that something is missing.
func TestEventsLeft(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	for _, begins := range []bool{false, true} {
		r := runner(t, nsrun.Config{Project: p, Watch: true, After: nsrun.Discard, Grace: 10 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		x, err := r.Start(ctx, nsrun.Request{Command: "echo 1 >f; echo 2 >g; echo 3 >h; sleep 100"})
		if err != nil {
			t.Fatal(err)
		}
		events, first, goOn, last := x.Events(), make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			var end error
			defer func() { last <- end }()
			if !begins {
				<-goOn
			}
			for _, err := range events {
				if end == nil && begins {
					close(first)
					<-goOn
				}
				end = cmp.Or(err, errSome)
			}
		}()
		if begins {
			<-first
		}
		cancel()
		waited := make(chan error, 1)
		go func() {
			_, err := x.Wait()
			waited <- err
		}()
		select {
		case err := <-waited:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(testenv.Patience):
			t.Fatal("Wait hangs")
		}
		close(goOn)
		if err := <-last; err == nil || err == errSome {
			t.Errorf("begun %v: the iteration ended with %v", begins, err)
		}
	}
}

// errSome says that there was an event.
var errSome = errors.New("an event")
