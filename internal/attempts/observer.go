//go:build linux

package attempts

import (
	"iter"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Kind says what a process tried to do.
type Kind uint8

const (
	Read Kind = iota
	Write
	Exec
	Unix    // to connect to a unix socket
	Syscall // a system call that another filter refuses
	Inet    // to connect to, send to, or serve at the internet address To; it is not known whether that fails
	Signal  // to send a signal to the process of this host with a Number that no process in the sandbox has had
)

// An Attempt is something that a process tries, and that fails.
type Attempt struct {
	Kind Kind
	Path string // in the sandbox, without symbolic links as far as it exists; for Syscall the call's name
	Err  syscall.Errno
	From string // with EXDEV: the directory of the old name; Path is that of the new name
	Name bool   // the name itself is removed or replaced, not the file that it leads to; with EXDEV: the old one is removed
	// Needs are the capabilities that the Syscall takes outside a sandbox, as bits, with sys.Initial if the kernel
	// asks for them in the initial user namespace. Zero: it takes none.
	Needs      uint64
	Privileges bool // no filter refuses the Syscall, but the processes lack the privileges for it
	Owner      bool // the Privileges are about owners or other users
	ICMP       bool // the Syscall makes an ICMP socket, as for ping(8); it is not known whether that fails
	SetID      bool // for Exec: the program's set-user-id bit has no effect; it is not known whether that makes it fail
	// Netlink says that the Syscall makes a socket with which privileged programs change network devices and rules;
	// only their message says whether that fails.
	Netlink bool

	To       netip.AddrPort // for Inet
	Datagram bool           // for Inet: the socket is not a TCP socket
	Serves   bool           // for Inet: To is an address of its own, at which it serves
	Joins    bool           // for Inet: To is a multicast group, which it joins on Device
	Device   Device         // for Joins
	Number   int            // for Signal
}

// A Process is a process in the sandbox. The zero Process is unknown.
type Process struct {
	Host, PID int    // its numbers on the host and in the sandbox
	Parent    int    // its parent's number on the host
	Program   string // its name, followed by the name that it was called by if that differs
	In, Out   string // its standard input and output, as /proc calls them; empty: it has none
	Kin       []int  // its ancestors that execute the same program, the nearest first
	Above     []int  // all its ancestors, the nearest first, without PID 1
	Threads   int    // how many threads it has
	// Background says that a shell does not wait for it: unlike its parent it ignores SIGINT and SIGQUIT.
	Background bool
}

// A Follower learns what processes do after a refusal. The numbers of processes are those on the host.
type Follower interface {
	Follows(process int) bool                    // whether it wants to know what a process does: see Observer.Follow
	Tried(process int, name string, failed bool) // name is a path, or the address and port of a server
	Executed(process int)
	Said(process int, text []byte) // what it wrote to standard error
	Ended(p Process, status int, command bool)
}

// An Observer observes what the processes of one sandbox try to do. It calls Tell, After and Heard on one thread.
type Observer struct {
	Deny []unix.SockFilter // the filter that refuses calls, with EPERM or another error that programs expect
	// Tell is called before something fails, and reports whether the policy refuses it. by returns the process that
	// tries it. It may not be called if the policy does not refuse that: what this process does not find at the same
	// path either, nothing hides; and if Tell has said so of the same attempt at the same path.
	Tell  func(a Attempt, by func() Process) (refused bool)
	After Follower          // called by nobody else
	Heard func(text []byte) // if not nil, it is called with what any process writes to standard error
	// Root reports whether the processes have root's rights to files of a user or group. To all other files they
	// have the rights of User. Nil: they have the caller's rights.
	Root func(id uint32) bool
	// User is the processes' user and group. It is ignored without Root.
	User uint32
	// Unprivileged says that the processes are root's, but have no privileges: they can neither give files away nor
	// become another user.
	Unprivileged bool
	// Held are the privileges that the caller has and the processes lack, as in Attempt.Needs.
	Held uint64

	first  int                // the first process that executed a program: the command
	lowest int                // its number in the sandbox
	root   sys.FD             // the sandbox's root; None before the first call
	roots  bool               // a process may have another root
	stop   sys.FD             // readable when serve has to end
	done   chan struct{}      // closed when serve has ended; nil: it was not started
	text   [unix.PathMax]byte // a path
	across moved              // the last rename that failed because it goes from one mount to another
	next   *sandbox.Observer  // the Observer that answers some calls; nil: there is none
	forks  uint64             // the host's count of forks before the sandbox began
	quick  *quick
}

// Attach makes c a command that is observed. The Observer enforces Deny, so it must not be among the command's other
// filters. An Observer that was attached before still answers its calls, and a Supervisor that is attached later serves
// this Observer too. Close must be called.
func (o *Observer) Attach(c *sandbox.Options) error {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	o.stop, o.root, o.forks = sys.FD(stop), sys.None, forks()
	o.quick = newQuick(o)
	filter := observing(o.Deny, o.Unprivileged, o.Held)
	o.next = c.Observer
	c.Observer = &sandbox.Observer{Filter: filter, Look: o.look, Handle: o.handle, Next: o.following}
	c.Supervisor = &sandbox.Supervisor{
		Filter: filter, Seal: []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}}, Early: true,
		Started: func(l *os.File, _ []*os.File) error {
			o.done = make(chan struct{})
			go o.serve(l)
			return nil
		},
	}
	return nil
}

// Follow says which processes the Follower follows: the numbers on the host. At first it follows none.
func (o *Observer) Follow(processes iter.Seq[int]) { o.quick.follow(processes) }

// Close waits until the Observer has stopped, unless it looks at a file on a file system that does not answer: then it
// stops when that answers, and may still tell what it has seen. If the sandbox has not ended, its calls fail from now
// on.
func (o *Observer) Close() {
	_, _ = unix.Write(int(o.stop), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	release := func() {
		o.stop.Close()
		o.root.Close()
	}
	if o.done == nil {
		release()
		return
	}
	notify.Ended(func() { <-o.done }, release)
}

// serve answers calls until the sandbox has ended.
func (o *Observer) serve(file *os.File) {
	defer close(o.done)
	defer file.Close()
	// The thread must not end: for the kernel it may be the parent of sandboxes, which would end with it.
	runtime.LockOSThread()
	raise, ok := func() bool { return true }, true
	if o.Root == nil {
		raise, ok = sys.Lower(allFiles)
	}
	defer func() {
		if !ok || raise() { // else no other goroutine may have the thread
			runtime.UnlockOSThread()
		}
	}()
	l := notify.Listener(file.Fd())
	l.WakeHere()
	for n := o.following(l, int(o.stop)); n != nil; n = o.following(l, int(o.stop)) {
		o.handle(l, n)
	}
}

// following returns the next call that quick does not answer, see sandbox.Observer.Next.
func (o *Observer) following(l notify.Listener, stop int) *notify.Notification {
	if o.quick.listener, o.quick.stop = l, stop; o.quick.next() {
		return &o.quick.seen
	}
	return nil
}

// allFiles are the capabilities for all files, which the sandbox's processes do not have either.
const allFiles = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// handle looks at a call and answers it. It refuses calls by their number and arguments, which the kernel has copied.
// The kernel carries out all others.
func (o *Observer) handle(l notify.Listener, n *notify.Notification) {
	v := verdict(o.Deny, uint32(n.NR), n.Arch, &n.Args)
	if v == seccomp.Allow {
		o.look(n)
		if o.next != nil && o.next.Answers(n.NR) {
			o.next.Handle(l, n)
		} else {
			l.Proceed(n.ID)
		}
		return
	}
	e := syscall.EPERM
	if v&seccomp.Action == seccomp.Refuse {
		e = syscall.Errno(v &^ seccomp.Action)
	}
	if told(e) || n.NR == unix.SYS_IO_URING_SETUP {
		name, needs := refusedCall(n)
		o.tell(n, Attempt{Kind: Syscall, Path: name, Err: e, Needs: needs})
	}
	l.Answer(n.ID, e)
}

// look reports a call if it is going to fail.
func (o *Observer) look(n *notify.Notification) {
	switch n.NR {
	case unix.SYS_SENDTO:
		if !o.inet(n) && !o.abstract(n) {
			o.try(n, &sendsTo)
		}
		return
	case unix.SYS_SETSOCKOPT:
		o.joins(n)
		return
	case unix.SYS_EXIT_GROUP:
		o.ended(n)
		return
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		o.said(n)
		return
	case unix.SYS_CHROOT:
		o.roots, o.quick.roots = true, true
		return
	case unix.SYS_EXECVE:
		if o.first == 0 {
			o.first, o.quick.begun = int(n.PID), true
			o.lowest = notify.Last(file(n.PID, "status"), "NSpid:")
		}
	}
	if slices.Contains(signalCalls[:], n.NR) || n.NR == unix.SYS_PTRACE {
		o.signal(n)
		return
	}
	if n.NR == unix.SYS_SOCKET {
		o.socket(n)
		return
	}
	if o.Unprivileged && o.owner(n) || o.rootOnly(n) {
		return
	}
	list := calls(int(n.NR))
	if takesAddress(n) && (o.inet(n) || o.abstract(n)) {
		return
	}
	two := len(list) == 2
	if two && list[0].deed == removes && o.crosses(n, list) {
		return // the kernel looks at nothing else
	}
	failed := false
	for i := range list {
		failed = o.try(n, &list[i]) || failed
	}
	if two && list[0].deed == looks && !failed {
		o.crosses(n, list)
	}
}

// tell calls Tell.
func (o *Observer) tell(n *notify.Notification, a Attempt) bool {
	return o.Tell(a, func() Process { return process(n.PID) })
}
