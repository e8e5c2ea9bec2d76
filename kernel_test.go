//go:build linux

package nsrun

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestFoundAtOnce: several commands start at once. What one of them finds that the machine lacks, the others do
// without, too.
func TestFoundAtOnce(t *testing.T) {
	over := mounts.Overlay("/", "", "", "/home")
	over.ReadOnly = true
	err := &nsexec.Error{Op: nsexec.StepOverlay, Err: syscall.EPERM, Mount: 1}
	r := NewRunner(Config{})
	planned := func() *Execution {
		x := &Execution{runner: r, cmd: &nsexec.Cmd{Mounts: mounts.Plan{over}}}
		x.mirrored, x.plainCaches = r.mirrors(), r.plainCaches.Load()
		return x
	}
	a, b := planned(), planned()
	for _, x := range []*Execution{a, b} {
		if !r.mirror(x, err) || !x.withoutCaches(err) {
			t.Error("the start is not tried once more")
		}
	}
	if x := planned(); r.mirror(x, err) || x.withoutCaches(err) {
		t.Error("the start is tried without end")
	}
}

// TestLasting: that a process has too many files now says nothing about its next command.
func TestLasting(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{syscall.EPERM, true},
		{syscall.EACCES, true},
		{syscall.ENOSYS, true},
		{syscall.EOPNOTSUPP, true},
		{syscall.EINVAL, true},
		{syscall.EAGAIN, false},
		{syscall.EMFILE, false},
		{syscall.ENOMEM, false},
	} {
		if c.err != nil {
			c.err = fmt.Errorf("load: %w", c.err)
		}
		if got := lasting(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
