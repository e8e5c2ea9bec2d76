//go:build linux

package attempts

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// standardError is the descriptor of messages.
const standardError = 2

// follower is the process of a thread, if what it does next matters.
func (o *Observer) follower(thread uint32) (process int, ok bool) {
	if !o.After.Follows(-1) {
		return 0, false // most often
	}
	process = field(file(thread, "status"), "Tgid:")
	return process, o.After.Follows(process)
}

// tried tells that a path was used, or that this failed and was not refused.
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

// said tells of what is written to standard error. Who could change it meanwhile deceives only about itself.
func (o *Observer) said(n *notify.Notification) {
	p, ok := o.follower(n.PID)
	if !ok {
		return
	}
	if n.NR == unix.SYS_WRITE {
		o.message(n.PID, p, n.Args[1], n.Args[2])
		return
	}
	const size, most = 16, 16 // struct iovec
	var list [size * most]byte
	part := list[:size*min(n.Args[2], most)]
	if notify.ReadMemory(n.PID, uintptr(n.Args[1]), part) != 0 {
		return
	}
	for ; len(part) > 0; part = part[size:] {
		o.message(n.PID, p, binary.NativeEndian.Uint64(part), binary.NativeEndian.Uint64(part[8:]))
	}
}

// message tells of a text in a caller's memory, as far as there is room for it.
func (o *Observer) message(thread uint32, p int, at, size uint64) {
	text := o.text[:min(size, uint64(len(o.text)))]
	if notify.ReadMemory(thread, uintptr(at), text) == 0 {
		o.After.Said(p, text)
	}
}

// ended tells of a process that ends, if somebody can have been refused something.
func (o *Observer) ended(n *notify.Notification) {
	if !o.After.Follows(-1) {
		return
	}
	if p := process(n.PID); p.Host > 0 {
		o.After.Ended(p, int(n.Args[0]&0xff), p.Host == o.first)
	}
}

// Command is the number on the host of the process that was the first to execute a program; 0: there was none.
func (o *Observer) Command() int { return o.first }
