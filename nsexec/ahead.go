//go:build linux

package nsexec

import (
	"slices"
	_ "unsafe" // for linkname

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// ahead is the sandbox that was begun before main, if it was given work to do in advance.
var ahead struct {
	clone sandbox.Clone
	ok    bool
	ids   idMaps // root's, if they are written
	marks *mountprog.Marks
}

// markAhead is sandbox.Ahead. The sandbox gets a Program whose last operation receives the second Program; among its
// descriptors is that of the file system with the marks. If it fails, the command gets another sandbox.
//
// Only mapped ids can own files. Root's are mapped here, as for a Cmd without maps, or by ids. A Cmd with other maps
// gets another sandbox.
//
//go:linkname markAhead github.com/nsrun/nsrun/nsexec.markAhead
func markAhead(hidden []string, ids []sandbox.IDMap) {
	if sandbox.Begun == nil || ahead.ok {
		return
	}
	ahead.clone, ahead.ok = sandbox.Begun()
	c := &ahead.clone
	if !ahead.ok || c.Inherit || !features.Has(features.NewMountCalls) {
		return
	}
	if c.UID == 0 {
		var list []IDMap
		for _, m := range ids {
			list = append(list, IDMap(m))
		}
		m := mapIDs(list, list)
		if m.self {
			return
		}
		// After a failure the command's maps are written, which fails once more, and it gets another sandbox.
		if writeMap(mapName(c.Pid, "uid"), text(m.uid)) != nil || writeMap(mapName(c.Pid, "gid"), text(m.gid)) != nil {
			return
		}
		ahead.ids = m
	}
	marks := &mountprog.Marks{Groups: mountprog.ByDir(hidden)}
	b := prog.New(prog.Native())
	b.SetStage(stage1)
	b.SetNFds(1)
	fd := mountprog.CompileMarks(b, marks.Groups)
	b.Call(prog.Receive, prog.Int(0), fd.Arg())
	if unix.Sendmsg(c.Sock, b.Program().Block(), nil, nil, unix.MSG_NOSIGNAL) == nil {
		ahead.marks = marks
	}
}

// aheadUser is sandbox.AheadUser.
//
//go:linkname aheadUser github.com/nsrun/nsrun/nsexec.aheadUser
func aheadUser(ids []sandbox.IDMap) (sys.FD, bool) {
	same := func(list []IDMap) bool {
		return slices.EqualFunc(list, ids, func(a IDMap, b sandbox.IDMap) bool { return a == IDMap(b) })
	}
	if !ahead.ok || !same(ahead.ids.uid) || !same(ahead.ids.gid) {
		return sys.None, false
	}
	fd, err := unix.Open("/proc/"+itoa(int64(ahead.clone.Pid))+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return sys.FD(fd), err == nil
}

// takeBegun returns the sandbox that was begun before main, the ids that root has in it, and its marks.
func takeBegun() (c sandbox.Clone, ids idMaps, marks *mountprog.Marks, ok bool) {
	if ahead.ok {
		c, ids, marks = ahead.clone, ahead.ids, ahead.marks
		ahead.ok, ahead.marks = false, nil
		return c, ids, marks, true
	}
	if sandbox.Begun != nil {
		c, ok = sandbox.Begun()
	}
	return c, idMaps{}, nil, ok
}
