//go:build linux

package attempts

import (
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

// A Kind says what somebody tried.
type Kind uint8

// The kinds.
const (
	Read Kind = iota
	Write
	Exec
	Unix    // to connect to a unix socket
	Syscall // that another filter refuses
	Inet    // to connect to, send to, or serve at an internet address: To. Whether that fails nobody has looked
	Signal  // to the process of this host that has a Number, which none in the sandbox has had
)

// An Attempt is something that fails.
type Attempt struct {
	Kind Kind
	Path string // in the sandbox, without symbolic links as far as it is there; of Syscall the call's name
	Err  syscall.Errno
	From string // with EXDEV: the directory of the other path; Path is the one of the new name
	Name bool   // it is the name that is removed, or replaced, not what it leads to
	// Anyone says of Syscall that it takes no privileges.
	Anyone   bool
	To       netip.AddrPort // of Inet
	Datagram bool           // of Inet: not by TCP
	Serves   bool           // of Inet: at To, which is its own
	Number   int            // of Signal
}

// A Process is one in the sandbox. The zero Process is unknown.
type Process struct {
	Host, PID int    // its numbers on the host and in the sandbox
	Parent    int    // its parent's number on the host
	Program   string // its name, and behind it how it was called where that differs
	In, Out   string // its standard input and output, as /proc calls them; empty: it has none
	Kin       []int  // those that it comes from and that execute the same program, the nearest first
	Above     []int  // all that it comes from, the nearest first, without PID 1
	Threads   int    // how many it has
}

// A Follower is told what processes do after something was refused. Processes have their numbers on the host.
type Follower interface {
	Follows(process int) bool // what it does matters; negative: what somebody does matters
	Tried(process int, name string, failed bool)
	Executed(process int)
	Said(process int, text []byte) // on standard error
	Ended(p Process, status int, command bool)
}

// An Observer looks at what the processes of one sandbox try. Tell and After are called on one thread.
type Observer struct {
	Deny []unix.SockFilter // which calls are refused; its refusals are EPERM, or other errors that programs expect
	// Tell is told of something that is going to fail, and reports whether it is the policy that refuses it. Only then is it
	// asked who by. The same of the same path is not told of again if it is not.
	Tell  func(a Attempt, by func() Process) (refused bool)
	After Follower // nobody else calls it
	// Root reports whether the processes have root's rights to files of a user or group; to all other files they are nobody. Nil:
	// they have the caller's rights.
	Root   func(id uint32) bool
	first  int                 // who was the first to execute a program: the command
	root   sys.FD              // of the sandbox; None until somebody has called
	stop   sys.FD              // readable when all is to end
	done   chan struct{}       // closed when nothing more is told; nil: nothing was begun
	text   [unix.PathMax]byte  // a path
	seen   notify.Notification // the call that is looked at
	across moved               // what was refused last because it goes from one mount to another
	next   *sandbox.Observer   // who answers some calls; nil: nobody
	forks  uint64              // of the whole host, before the sandbox began
	others answers             // what is not the policy's doing
}

// Attach makes c a command that is observed. Its other filters must not be those of Deny, which the Observer enforces. An
// Observer that was attached before answers its calls, of those that are told of here; a Supervisor that is attached later serves
// this one too. Close has to be called.
func (o *Observer) Attach(c *sandbox.Options) error {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	o.stop, o.root, o.forks = sys.FD(stop), sys.None, forks()
	filter := observing(o.Deny)
	o.next = c.Observer
	c.Observer = &sandbox.Observer{Filter: filter, Look: o.look, Handle: o.handle}
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

// Close waits until nothing more is told: the sandbox has ended, or what it asks for fails from now on.
func (o *Observer) Close() {
	_, _ = unix.Write(int(o.stop), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if o.done != nil {
		<-o.done
	}
	o.stop.Close()
	o.root.Close()
}

// serve answers until the sandbox has ended.
func (o *Observer) serve(file *os.File) {
	defer close(o.done)
	defer file.Close()
	// The thread goes on afterwards: for the kernel it may be the parent of sandboxes, which end with it.
	runtime.LockOSThread()
	if o.Root == nil {
		if raise, ok := sys.Lower(allFiles); ok {
			defer func() {
				if raise() {
					runtime.UnlockOSThread()
				}
			}()
		}
	}
	l := notify.Listener(file.Fd())
	l.WakeHere()
	for l.Wait(int(o.stop)) {
		if l.Receive(&o.seen) == 0 {
			o.handle(l, &o.seen)
		}
	}
}

// allFiles are the capabilities that the sandbox's processes do not have either: root's right to all files.
const allFiles = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// handle looks at a call and answers it. What was refused is refused by the numbers that the kernel has copied; whatever else
// the call is about the kernel looks at again.
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
	if told(e) {
		name, anyone := refusedCall(n)
		o.tell(n, Attempt{Kind: Syscall, Path: name, Err: e, Anyone: anyone})
	}
	l.Answer(n.ID, e)
}

// look tells of a call that is going to fail.
func (o *Observer) look(n *notify.Notification) {
	switch n.NR {
	case unix.SYS_BIND, unix.SYS_SENDTO:
		o.inet(n)
		return
	case unix.SYS_EXIT_GROUP:
		o.ended(n)
		return
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		o.said(n)
		return
	case unix.SYS_EXECVE:
		if o.first == 0 {
			o.first = int(n.PID)
		}
	}
	if slices.Contains(signalCalls[:], n.NR) {
		o.signal(n)
		return
	}
	list := calls(int(n.NR))
	if len(list) == 2 {
		if from, to := o.crosses(n, &list[0], &list[1]); to != "" {
			o.tell(n, Attempt{Kind: Write, From: from, Path: to, Err: unix.EXDEV}) // which fails anyway
			return
		}
	}
	if n.NR == unix.SYS_CONNECT {
		if o.inet(n) {
			return
		}
	}
	for i := range list {
		o.try(n, &list[i])
	}
}

// tell says who it was, if that is asked.
func (o *Observer) tell(n *notify.Notification, a Attempt) bool {
	return o.Tell(a, func() Process { return process(n.PID) })
}

// answers are calls that only read, and failed, and not by the policy: compilers look for each of their files in many
// directories. They are forgotten before they take much memory.
type answers struct {
	known map[answer]struct{}
	size  int
}

// An answer is about a path as the caller wrote it.
type answer struct {
	name string
	deed deed
	mode uint32
	err  syscall.Errno
}

func (l *answers) has(a answer) bool {
	_, ok := l.known[a]
	return ok
}

func (l *answers) add(a answer) {
	const most, each = 4 << 20, 64
	if l.size += len(a.name) + each; l.known == nil || l.size > most {
		l.known, l.size = map[answer]struct{}{}, len(a.name)+each
	}
	l.known[a] = struct{}{}
}
