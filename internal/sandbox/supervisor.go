//go:build linux

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// Supervisor decides about some of a command's system calls outside the sandbox (seccomp_unotify(2)). It needs a PID 1
// that nobody can trace, so there can be neither Inherit nor Bubblewrap. Links, Sockets and NoConnect need a new
// network namespace: Cmd.Share without Net, Join without Net.
type Supervisor struct {
	// Filter is installed first. Calls that it answers with SECCOMP_RET_USER_NOTIF are reported to the listener. It
	// must allow sendmsg(2) if the upper half of its flags, which the kernel ignores, is HandOver: that call sends
	// the listener out of the sandbox. Nil: there is no filter, no listener and no Seal, but there can be Sockets.
	Filter []unix.SockFilter
	// Seal is installed when the listener has left the sandbox, before Cmd.Seccomp and before the command is
	// executed. It must refuse the sendmsg(2) that Filter allows for that. Nil: Filter allows none.
	Seal []unix.SockFilter
	// Links are sent to rtnetlink(7) in the new network namespace. Nil: it has only the loopback device.
	Links []Link
	// Sockets are made there, in this order, after Links. The command does not get them.
	Sockets []Socket
	// NoConnect makes the kernel refuse every TCP connect(2) of the command (Landlock, Linux 6.7), whatever Filter
	// and the listener say.
	NoConnect bool
	// Early calls Started as soon as the listener has left the sandbox, on another goroutine. It is needed if
	// Filter reports execve(2), because the command cannot be executed before. False: Started is called when the
	// command was executed.
	Early bool
	// Optional goes on if the kernel gives no listener, because one was installed before, or because it has no
	// seccomp_unotify(2). The calls that Filter reports are then allowed, and Started gets no listener. False: it
	// is an error.
	Optional bool
	// Without says, after Start, that there is no listener, and Optional went on.
	Without bool
	// Started gets the listener, which is nil if there is none, and the sockets, and must close them. Start calls
	// it. Its error ends the sandbox.
	Started func(listener *os.File, sockets []*os.File) error
}

// AddSockets adds sockets to those of a Supervisor that was attached before, or to a new Supervisor. started gets them,
// and must close them.
func (o *Options) AddSockets(list []Socket, started func(sockets []*os.File) error) {
	s := Supervisor{Started: func(*os.File, []*os.File) error { return nil }}
	if o.Supervisor != nil {
		s = *o.Supervisor
	}
	before, n := s.Started, len(s.Sockets)
	s.Sockets = append(s.Sockets[:n:n], list...)
	s.Started = func(listener *os.File, sockets []*os.File) error {
		err := before(listener, sockets[:n:n])
		if err == nil {
			return started(sockets[n:])
		}
		for _, f := range sockets[n:] {
			_ = f.Close()
		}
		return err
	}
	o.Supervisor = &s
}

// HandOver marks the sendmsg(2) by which the listener leaves the sandbox.
const HandOver = 0x6e73686f

// Link is a list of messages for rtnetlink(7) to which the kernel answers only with errors.
type Link struct {
	Messages []byte
	// Optional goes on with the next message if the kernel refuses one.
	Optional bool
}

// Socket is a socket to be made.
type Socket struct {
	Domain, Type, Protocol int
	// Addr is the address that it is bound to, in the kernel's form. Nil: it is not bound.
	Addr []byte
	// Backlog makes it listen. Zero: it does not listen.
	Backlog int
}

// An Observer gets system calls from the Supervisor, because a process can have only one listener.
type Observer struct {
	// Filter decides about calls that the Supervisor's Filter would allow.
	Filter []unix.SockFilter
	// Look is called for a call that the Supervisor answers. Handle is called for a call that only Filter reports,
	// and answers it. Both are called on the Supervisor's thread.
	Look   func(n *notify.Notification)
	Handle func(l notify.Listener, n *notify.Notification)
	// Next waits for a call, and returns it until the next Next. In place of Handle it may answer calls that only
	// Filter reports. It returns nil if no process is left that could make one, or if the descriptor stop is
	// readable. Nil: the Supervisor waits itself.
	Next func(l notify.Listener, stop int) *notify.Notification
	// Answers reports whether Handle does more with a call that other filters allow than let the kernel carry it
	// out. Nil: it does not, and the Observer may receive execve(2).
	Answers func(nr int32) bool
}
