//go:build linux

package attempts

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// standardError is the descriptor to which programs write their messages, and standardOutput that to which tests do.
const standardOutput, standardError = 1, 2

// follower returns the process of a thread, if the Follower follows it.
func (o *Observer) follower(thread uint32) (process int, ok bool) {
	if !o.quick.follows(thread) {
		return 0, false // most often
	}
	process = notify.Last(file(thread, "status"), "Tgid:")
	return process, o.After.Follows(process)
}

// tried tells the Follower that a process used a path, or failed to for a reason other than a refusal.
func (o *Observer) tried(n *notify.Notification, name string, d deed, failed bool) {
	p, ok := o.follower(n.PID)
	if !ok {
		return
	}
	if d == executes && !failed {
		o.After.Executed(p)
		return
	}
	o.After.Tried(p, name, failed)
}

// said tells the Follower what a process writes to standard error. A process that changes the text meanwhile deceives
// only about itself.
func (o *Observer) said(n *notify.Notification) {
	if o.Heard != nil {
		written(n, &o.text, o.Heard)
	}
	p, ok := o.follower(n.PID)
	if !ok {
		return
	}
	written(n, &o.text, func(text []byte) { o.After.Said(p, text) })
}

// mostParts is how many times as much as there is room for in a buffer is looked at of a text.
const mostParts = 4

// written calls f for each text that a call writes, with the beginning of it, in parts that have room in buffer.
func written(n *notify.Notification, buffer *[unix.PathMax]byte, f func(text []byte)) {
	one := func(at, size uint64) {
		for range mostParts {
			text := buffer[:min(size, uint64(len(buffer)))]
			if len(text) == 0 || notify.ReadMemory(n.PID, uintptr(at), text) != 0 {
				break
			}
			f(text)
			at, size = at+uint64(len(text)), size-uint64(len(text))
		}
	}
	if n.NR == unix.SYS_WRITE {
		one(n.Args[1], n.Args[2])
		return
	}
	const size, most = 16, 16 // struct iovec
	var list [size * most]byte
	part := list[:size*min(n.Args[2], most)]
	if notify.ReadMemory(n.PID, uintptr(n.Args[1]), part) != 0 {
		return
	}
	for ; len(part) > 0; part = part[size:] {
		one(binary.NativeEndian.Uint64(part), binary.NativeEndian.Uint64(part[8:]))
	}
}

// ended tells the Follower that a process ends, if it follows the process or its parent.
func (o *Observer) ended(n *notify.Notification) {
	status := file(n.PID, "status")
	if !o.After.Follows(notify.Last(status, "Tgid:")) && !o.After.Follows(notify.Last(status, "PPid:")) {
		return
	}
	if p := process(n.PID); p.Host > 0 {
		o.After.Ended(p, int(n.Args[0]&0xff), p.Host == o.first)
	}
}

// Command returns the host's number of the first process that executed a program: the command. Zero: there was none.
func (o *Observer) Command() int { return o.first }
