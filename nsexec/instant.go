//go:build linux

package nsexec

import (
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
)

// Instant is what Cmd.Instant has to be told, because it asks nobody.
type Instant struct {
	Status     int    // the number of the status pipe
	Other      int    // the number of its other end, which the clone has to close
	UID, GID   IDMap  // of a new user namespace
	HostRoot   bool   // the caller is root on the host
	WorkingDir string // the caller's
}

// Instant lays out one Program that starts c, which must have Bubblewrap and
// Inherit, and none of what needs questions to the system, or memory: it is for
// programs in which the Go runtime has not started. Nil: it cannot be done so.
func (c *Cmd) Instant(room *prog.Room, i *Instant) []byte {
	p := beginning{profile: profile{
		flags: (All &^ c.Share).flags(), bounding: c.Capabilities, self: true, inherit: true, keyring: true,
		one: [2]IDMap{i.UID, i.GID},
	}}
	if c.keepsBounding(i.HostRoot) {
		p.bounding = ^Capabilities(0)
	}
	c.wd = i.WorkingDir
	b := room.Builder()
	b.SetNFds(1)
	b.SetFlags(p.cloneFlags())
	b.Call(prog.SysClose, prog.Int(i.Other))
	p.namespaces(b)
	o := mountprog.Options{HostRoot: i.HostRoot, UserNamespace: c.Share&User == 0, Bubblewrap: true}
	if c.emit(b, o, nil, i.Status, false) != nil {
		return nil
	}
	return room.Block()
}
