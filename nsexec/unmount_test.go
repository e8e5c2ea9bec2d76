//go:build linux

package nsexec_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// With LeaveMounts this process holds the command's mount namespace until Wait has returned; without it, it holds none.
// It does not matter which other sockets the sandbox has.
func TestLeaveMounts(t *testing.T) {
	gate := func() error { return nil }
	for _, c := range []struct {
		name    string
		options sandbox.Options
		hidden  bool // there is no /proc in the sandbox
		leaves  bool
	}{
		{"not asked for", sandbox.Options{}, false, false},
		{"alone", sandbox.Options{LeaveMounts: true}, false, true},
		{"no /proc in the sandbox", sandbox.Options{LeaveMounts: true}, true, true},
		{"gate", sandbox.Options{LeaveMounts: true, Gate: gate}, false, true},
		{"supervisor", sandbox.Options{LeaveMounts: true, Supervisor: watching()}, false, true},
		{"gate and supervisor", sandbox.Options{LeaveMounts: true, Gate: gate, Supervisor: watching()}, false, true},
		{"bubblewrap", sandbox.Options{LeaveMounts: true, Bubblewrap: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := "readlink /proc/self/ns/mnt"
			if c.hidden {
				script = "echo"
			}
			cmd := in(false, system(), script)
			if !c.hidden {
				cmd.Mounts = append(cmd.Mounts, mounts.Proc("/proc"))
			}
			*sandbox.Of(cmd) = c.options
			var out strings.Builder
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			held := nsexec.HeldMounts(cmd)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			unmounted := sandbox.Of(cmd).Unmounted
			if (held != "") != c.leaves || (unmounted != nil) != c.leaves {
				t.Errorf("namespace descriptor: %q, channel: %v; want %v", held, unmounted != nil, c.leaves)
			}
			if want := strings.TrimSpace(out.String()); c.leaves && !c.hidden && held != want {
				t.Errorf("the descriptor is of %s, but the command was in %s", held, want)
			}
			if unmounted != nil {
				<-unmounted
			}
		})
	}
}

// watching is a supervisor that has nothing to decide.
func watching() *sandbox.Supervisor {
	return &sandbox.Supervisor{
		Sockets: []sandbox.Socket{{Domain: 1, Type: 1}},
		Started: func(listener *os.File, sockets []*os.File) error {
			for _, f := range sockets {
				_ = f.Close()
			}
			return nil
		},
	}
}

// A sandbox that fails after it has sent its mount namespace leaves nothing.
func TestLeaveMountsFailed(t *testing.T) {
	cmd := in(false, system(), "true")
	cmd.Path = "/none"
	sandbox.Of(cmd).LeaveMounts = true
	if err := cmd.Start(); err == nil {
		t.Fatal("it started")
	}
	if held := nsexec.HeldMounts(cmd); held != "" {
		t.Errorf("it holds %s", held)
	}
}

// An error of a supervisor that is the number of one alone gets the name of the step.
func TestSupervisorFails(t *testing.T) {
	cmd := in(false, system(), "true")
	s := watching()
	s.Started = func(_ *os.File, sockets []*os.File) error {
		for _, f := range sockets {
			_ = f.Close()
		}
		return syscall.EBUSY
	}
	sandbox.Of(cmd).Supervisor = s
	err := cmd.Start()
	if e, ok := errors.AsType[*nsexec.Error](err); !ok || e.Op != "supervise" || !errors.Is(err, syscall.EBUSY) {
		t.Errorf("got %v", err)
	}
}
