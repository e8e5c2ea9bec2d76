//go:build linux

package nsexec

import (
	"os"
	"slices"
	_ "unsafe" // for linkname

	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sandbox"
)

// options is sandbox.Of.
//
//go:linkname options github.com/nsrun/nsrun/nsexec.options
func options(cmd any) *sandbox.Options { return &cmd.(*Cmd).opt }

// compile is sandbox.Compile.
//
//go:linkname compile github.com/nsrun/nsrun/nsexec.compile
func compile(cmd any, room *prog.Room, known *sandbox.Known) []byte {
	c := cmd.(*Cmd)
	p := beginning{profile: profile{
		flags: (All &^ c.Share).flags(), bounding: c.Capabilities, self: true, inherit: true, keyring: true,
		one: [2]IDMap{oneID(known.UID), oneID(known.GID)},
	}}
	if c.keepsBounding(known.HostRoot) {
		p.bounding = ^Capabilities(0)
	}
	c.opt.Begun, c.opt.PageSize = known.Begun, known.PageSize
	b := room.Builder()
	b.SetNFds(1)
	b.SetFlags(p.cloneFlags())
	b.Call(prog.SysClose, prog.Int(known.Other))
	p.namespaces(b)
	o := mountprog.Options{HostRoot: known.HostRoot, UserNamespace: c.Share&User == 0, Bubblewrap: true}
	if c.emit(b, o, nil, known.Status, false) != nil {
		return nil
	}
	return room.Block()
}

func oneID(id sandbox.ID) IDMap { return IDMap{Inside: id.Inside, Outside: id.Outside, Count: 1} }

// makeReady is sandbox.Ready.
//
//go:linkname makeReady github.com/nsrun/nsrun/nsexec.makeReady
func makeReady(cmd any, cgroup *os.File) {
	c := cmd.(*Cmd)
	p := c.beginning()
	if reexec.InProcess || !p.common() {
		return
	}
	if p.cgroup = cgroup; cgroup != nil {
		p.mounts = false
	}
	hidden := slices.Clone(c.mostHidden())
	done := make(chan struct{})
	ready.mu.Lock()
	ready.begin(func() {
		defer close(done)
		ready.fill(p.profile, hidden)
	})
	ready.mu.Unlock()
	<-done
}

// unready is sandbox.Unready.
//
//go:linkname unready github.com/nsrun/nsrun/nsexec.unready
func unready(cgroup *os.File) {
	ready.mu.Lock()
	var left []*clone
	for p, s := range ready.waiting {
		if p.cgroup == cgroup {
			left = append(left, s)
			delete(ready.waiting, p)
		}
	}
	ready.mu.Unlock()
	for _, s := range left {
		s.close()
	}
}
