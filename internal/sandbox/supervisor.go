//go:build linux

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// Supervisor has some of a command's system calls decided outside of the sandbox,
// see seccomp_unotify(2). It needs a PID 1 that nobody can trace: neither Inherit nor Bubblewrap; and for Links, Sockets
// and NoConnect a new network namespace: Cmd.Share without Net, Join without Net.
type Supervisor struct {
	// Filter is installed first. Nil: there is none, no listener and no Seal, but Sockets. What it answers with
	// SECCOMP_RET_USER_NOTIF is told to the listener. It must let sendmsg(2) pass where the upper half of its flags,
	// which the kernel ignores, is HandOver: so the listener leaves the sandbox.
	Filter []unix.SockFilter
	// Seal is installed when the listener has left, before Cmd.Seccomp and the
	// command. It must refuse what Filter lets pass for that. Nil: that is nothing.
	Seal []unix.SockFilter
	// Links are sent to rtnetlink(7) in the new network namespace. Nil: there is
	// only the loopback device.
	Links []Link
	// Sockets are made there, in this order, after Links. The command does not have them.
	Sockets []Socket
	// NoConnect has the kernel refuse every TCP connect(2) of the command (Landlock,
	// Linux 6.7), whatever Filter and who answers for it say.
	NoConnect bool
	// Early calls Started as soon as the listener has left, on another goroutine: where Filter tells of execve(2), the
	// command is executed only then. False: when the command was executed.
	Early bool
	// Optional goes on where the kernel gives no listener: one was installed before, or there is no seccomp_unotify(2). What Filter
	// tells of is allowed then, and Started gets none. False: that is an error.
	Optional bool
	// Without reports, after Start, that Optional had to.
	Without bool
	// Started gets the listener, nil if there is none, and the sockets behind it, and has to close them. It is
	// called by Start; its error ends the sandbox.
	Started func(listener *os.File, sockets []*os.File) error
}

// AddSockets has more sockets made for the command, beside what a Supervisor does that was attached before; started gets
// them, and has to close them.
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

// HandOver marks the sendmsg(2) by which the listener leaves.
const HandOver = 0x6e73686f

// Link is a list of messages for rtnetlink(7), made so that only errors are answered.
type Link struct {
	Messages []byte
	// Optional goes on where the kernel refuses one; those after it are sent all the same.
	Optional bool
}

// Socket is a socket to be made.
type Socket struct {
	Domain, Type, Protocol int
	// Addr is what it is bound to, as the kernel has it. Nil: it is not bound.
	Addr []byte
	// Backlog makes it listen. 0: it does not.
	Backlog int
}

// An Observer is told of system calls beside a Supervisor that decides about others: there is one listener for a process.
type Observer struct {
	// Filter is asked where the Supervisor's would let a call pass.
	Filter []unix.SockFilter
	// Look looks at a call that the Supervisor has been told of; Handle at one of Filter's, and answers it. Both are called on
	// the Supervisor's thread.
	Look   func(n *notify.Notification)
	Handle func(l notify.Listener, n *notify.Notification)
	// Answers says for calls that pass other filters whether Handle does more with them than let the kernel do them. Nil: with
	// none, and the Observer may be told of execve(2).
	Answers func(nr int32) bool
}
