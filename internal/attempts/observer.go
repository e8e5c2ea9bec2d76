//go:build linux

package attempts

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sandbox"
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
)

// An Attempt is something that fails.
type Attempt struct {
	Kind Kind
	Path string // in the sandbox, without symbolic links as far as it is there; of Syscall the call's name
	Err  syscall.Errno
	// Anyone says of Syscall that it takes no privileges.
	Anyone  bool
	Process int    // who tried, by its number on the host
	PID     int    // the same in the sandbox; zero: unknown
	Program string // its name; empty: unknown
}

// An Observer looks at what the processes of one sandbox try. Tell and Ended are called on one thread.
type Observer struct {
	Deny  []unix.SockFilter   // which calls are refused; its refusals are EPERM, or other errors that programs expect
	Tell  func(a Attempt)     // of something that is going to fail
	Ended func(process int)   // with an exit status other than zero
	root  sys.FD              // of the sandbox; None until somebody has called
	stop  sys.FD              // readable when all is to end
	done  chan struct{}       // closed when nothing more is told; nil: nothing was begun
	text  [unix.PathMax]byte  // a path
	seen  notify.Notification // the call that is looked at
}

// Attach makes c a command that is observed. Its other filters must not be those of Deny, which the Observer enforces. A
// Supervisor that is attached later serves the Observer too. Close has to be called.
func (o *Observer) Attach(c *sandbox.Options) error {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	o.stop, o.root = sys.FD(stop), sys.None
	filter := observing(o.Deny)
	c.Observer = &sandbox.Observer{Filter: filter, Look: o.look, Handle: o.handle}
	c.Supervisor = &sandbox.Supervisor{
		Filter: filter, Seal: []unix.SockFilter{{Code: ret, K: retAllow}}, Early: true,
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

// serve answers until the sandbox has ended. The thread ends with it: it has less privileges than others.
func (o *Observer) serve(file *os.File) {
	defer close(o.done)
	defer file.Close()
	runtime.LockOSThread()
	withoutPrivileges()
	l := notify.Listener(file.Fd())
	l.WakeHere()
	for l.Wait(int(o.stop)) {
		if l.Receive(&o.seen) == 0 {
			o.handle(l, &o.seen)
		}
	}
}

// withoutPrivileges takes from this thread what the sandbox's processes do not have either: root's right to all files.
func withoutPrivileges() {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) == nil {
		data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		_ = unix.Capset(&head, &data[0])
	}
}

// handle looks at a call and answers it. What was refused is refused by the numbers that the kernel has copied; whatever else
// the call is about the kernel looks at again.
func (o *Observer) handle(l notify.Listener, n *notify.Notification) {
	v := verdict(o.Deny, uint32(n.NR), n.Arch, &n.Args)
	if v == retAllow {
		o.look(n)
		l.Proceed(n.ID)
		return
	}
	e := syscall.EPERM
	if v&retAction == retErrno {
		e = syscall.Errno(v &^ retAction)
	}
	if told(e) {
		name, anyone := refusedCall(n)
		o.tell(n, Attempt{Kind: Syscall, Path: name, Err: e, Anyone: anyone})
	}
	l.Answer(n.ID, e)
}

// look tells of a call that is going to fail.
func (o *Observer) look(n *notify.Notification) {
	if n.NR == unix.SYS_EXIT_GROUP {
		if p := processOf(n.PID); p > 0 {
			o.Ended(p)
		}
		return
	}
	for i := range calls {
		if c := &calls[i]; c.nr == int(n.NR) {
			if a := o.try(n, c); a.Err != 0 {
				o.tell(n, a)
			}
		}
	}
}

// tell adds who it was.
func (o *Observer) tell(n *notify.Notification, a Attempt) {
	if a.Process = processOf(n.PID); a.Process > 0 {
		a.PID, a.Program = pidInside(a.Process), programOf(a.Process)
	}
	o.Tell(a)
}
