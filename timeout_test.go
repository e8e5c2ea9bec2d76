//go:build linux

package nsrun

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sshagent"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestNotTimedOut: a command that was not asked to end has not timed out, even if
// its time is up only after everything is done.
func TestNotTimedOut(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	x, err := NewRunner(Config{Timeout: time.Hour, NoPlayground: true}).Start(context.Background(), Request{Command: "true"})
	if err != nil {
		t.Fatal(err)
	}
	up, cancel := context.WithCancel(t.Context())
	cancel()
	x.ctx, x.parent = up, up
	if res, err := x.Wait(); err != nil || res.TimedOut {
		t.Errorf("%v, timed out: %v", err, res.TimedOut)
	}
	if err := x.cmd.Cancel(); !errors.Is(err, os.ErrProcessDone) || x.canceled.Load() {
		t.Errorf("canceled after its end: %v, %v", x.canceled.Load(), err)
	}
}

// TestLongTimeout: a limit beyond what the kernel's clock can count is not one that is reached at once.
func TestLongTimeout(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := NewRunner(Config{Timeout: 1<<63 - 1, NoPlayground: true})
	if res, err := r.Run(t.Context(), Request{Command: "exit 3"}); err != nil || res.TimedOut || res.ExitCode != 3 {
		t.Errorf("%v, timed out: %v, exit code %d", err, res.TimedOut, res.ExitCode)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestSignalAfterEnd: once a command without a sandbox may be reaped, its process id and group may belong to others. So
// neither gets a signal, though the process still exists.
func TestSignalAfterEnd(t *testing.T) {
	b := &bareCommand{Cmd: exec.Command("/bin/true")}
	b.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	b.end()
	if err := b.signal(0); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if err := b.wait(); err != nil {
		t.Error(err)
	}
}

// TestAskedKeys: while the user is asked about one key of the agent, what was answered about another one is known.
func TestAskedKeys(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := &Execution{}
	x.services.started = make(chan struct{}) // never closed: nobody answers
	known, other := sshagent.Key{Blob: []byte("known")}, sshagent.Key{Blob: []byte("other")}
	keys := &chosenKeys{asked: true, answers: map[string]func() bool{
		sshagent.Fingerprint(known.Blob): func() bool { return true },
	}}
	asking := make(chan struct{})
	keys.answers[sshagent.Fingerprint(other.Blob)] = func() bool { close(asking); <-ctx.Done(); return false }
	answer := make(chan bool)
	go func() { answer <- x.mayList(ctx, keys, other) }()
	<-asking
	if !x.mayList(ctx, keys, known) {
		t.Error("the known key is not listed")
	}
	cancel()
	if <-answer {
		t.Error("the other key is listed")
	}
}

// TestCredentialWaits: a client that has gone does not wait for the answer about a credential that another client asked
// for.
func TestCredentialWaits(t *testing.T) {
	g := &gitCredential{turn: make(chan struct{}, 1), done: true, secret: "me:secret"}
	if secret, err := g.get(t.Context()); secret != g.secret || err != nil {
		t.Errorf("got %q, %v", secret, err)
	}
	g.turn <- struct{}{} // somebody asks
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if secret, err := g.get(gone); secret != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %q, %v", secret, err)
	}
}
