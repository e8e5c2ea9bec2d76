//go:build linux

package nsexec

import (
	_ "unsafe" // for linkname

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
)

// ahead is the sandbox that was begun before main, if it was given work to do in advance.
var ahead struct {
	clone sandbox.Clone
	ok    bool
	marks *mountprog.Marks
}

// markAhead is sandbox.Ahead. The sandbox gets a Program whose last operation receives the second Program; among its
// descriptors is that of the file system with the marks. If it fails, the command gets another sandbox.
//
//go:linkname markAhead github.com/nsrun/nsrun/nsexec.markAhead
func markAhead(hidden []string) {
	if sandbox.Begun == nil || ahead.ok {
		return
	}
	ahead.clone, ahead.ok = sandbox.Begun()
	// Root's ids are not mapped yet, so no files could be made.
	if c := &ahead.clone; !ahead.ok || c.UID == 0 || c.Inherit || !features.Has(features.NewMountCalls) {
		return
	}
	marks := &mountprog.Marks{Groups: mountprog.ByDir(hidden)}
	b := prog.New(prog.Native())
	b.SetStage(stage1)
	b.SetNFds(1)
	fd := mountprog.CompileMarks(b, marks.Groups)
	b.Call(prog.Receive, prog.Int(0), fd.Arg())
	if unix.Sendmsg(ahead.clone.Sock, b.Program().Block(), nil, nil, unix.MSG_NOSIGNAL) == nil {
		ahead.marks = marks
	}
}

// takeBegun returns the sandbox that was begun before main, and its marks.
func takeBegun() (c sandbox.Clone, marks *mountprog.Marks, ok bool) {
	if ahead.ok {
		c, marks = ahead.clone, ahead.marks
		ahead.ok, ahead.marks = false, nil
		return c, marks, true
	}
	if sandbox.Begun != nil {
		c, ok = sandbox.Begun()
	}
	return c, nil, ok
}
