//go:build linux

package nsexec

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/mounts"
)

// What of the second Program can be done before there is a command: the mount namespace, and the file system that the
// sandbox is built on, with whiteouts. It takes a third of the time of a start.

// mountsAhead reports whether a sandbox for commands like this one can have its mount namespace before it is wanted.
func (c *Cmd) mountsAhead(p *beginning) bool {
	return !reexec.InProcess && p.flags&unix.CLONE_NEWUSER != 0 && p.common() && p.cgroup == nil && c.opt.Confinement == nil && !c.opt.Inherit && !c.opt.Bubblewrap &&
		!c.opt.ClassicMounts && features.Has(features.NewMountCalls) && !noMountsAhead.Load()
}

// noMountsAhead is set when the kernel refuses that, or when it is of no use.
var noMountsAhead atomic.Bool

// mostHidden are the names that the overlay of c with the most of them hides.
func (c *Cmd) mostHidden() (hidden []string) {
	for i := range c.Mounts {
		if m := &c.Mounts[i]; m.Kind == mounts.KindOverlay && len(m.Hide) > len(hidden) {
			hidden = m.Hide
		}
	}
	return hidden
}

// prepareMounts gives a waiting sandbox its mount namespace and, if there are hidden names, marks for them. If that
// fails, the command gets another sandbox. t was opened before, so it notices every change that the copy lacks.
func (s *clone) prepareMounts(t *mountTable, hidden []string) {
	if t == nil {
		return
	}
	b := prog.New(prog.Native())
	b.SetStage(stage1)
	b.SetNFds(1)
	stepClone(b, unix.CLONE_NEWNS)
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	var marks *mountprog.Marks
	if len(hidden) > 0 {
		marks = &mountprog.Marks{Groups: mountprog.ByDir(hidden)}
		fd := mountprog.CompileMarks(b, marks.Groups)
		b.Step("start", "")
		b.Call(prog.Receive, prog.Int(0), fd.Arg())
	} else {
		b.Step("start", "")
		b.Call(prog.Receive, prog.Int(0))
	}
	if s.send(b.Program(), nil) == nil {
		s.table, s.marks, s.mounts = t, marks, true
	}
}
