//go:build linux

package store

import (
	"cmp"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An Opener is a tree.Opener: a process in a user namespace of its own, in which only the caller's user and group
// exist, and with CAP_DAC_READ_SEARCH alone. The kernel lets it read what belongs to both, and nothing else. The zero
// Opener is ready; it has no process until it is asked.
type Opener struct {
	mu     sync.Mutex
	worker *reexec.Worker // nil: there is none
	left   int            // how many more Programs it runs
	over   bool           // it is closed, or there can be none
}

var _ tree.Opener = (*Opener)(nil)

const (
	// passed is the number that the worker gives the one descriptor of a message: the lowest above those that it has.
	passed = reexec.StatusFd + 1

	// openerMost is how many Programs one worker runs, because it keeps their memory, 12 KiB each.
	openerMost = 500

	// xattrMost is XATTR_SIZE_MAX of the kernel.
	xattrMost = 64 << 10

	usualReply = 'u'
)

// Close ends the process. After it, nothing is opened.
func (o *Opener) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dismiss()
	o.over = true
}

func (o *Opener) dismiss() (err error) {
	if o.worker != nil {
		err = o.worker.Dismiss()
		o.worker = nil
	}
	return err
}

// OpenOwn is for tree.Opener.
func (o *Opener) OpenOwn(at sys.FD, name string, flags, resolve uint64, usual unix.Errno) (sys.FD, error) {
	b := prog.New(prog.Native())
	fd := b.Slot()
	how := b.Words(flags|unix.O_CLOEXEC, 0, resolve)
	none := b.Call(prog.SysOpenat2, prog.Int(passed), b.String(name), how.Arg(), prog.Int(24)).To(fd).Tolerate(usual).OnTolerated()
	b.SendFiles(prog.Int(reexec.ControlFd), prog.Int(unix.MSG_NOSIGNAL), []prog.Slot{fd})
	b.Close(fd)
	sent := b.Jump()
	b.Here(none)
	text := b.Text(string(usualReply))
	b.Call(prog.SysWrite, prog.Int(reexec.ControlFd), text.Arg(), text.Len())
	b.Here(sent)
	opened := sys.None
	err := o.run(b, at, func(data, rights []byte) (err error) {
		if data[0] == usualReply {
			return usual
		}
		opened, err = sys.RightsFD(rights)
		return err
	})
	return opened, err
}

// OwnXattr is for tree.Opener.
func (o *Opener) OwnXattr(at sys.FD, name string, buf []byte) (n int, err error) {
	b := prog.New(prog.Native())
	size := b.Slot()
	value := b.Zero(xattrMost)
	// One byte goes ahead, because a message without any would look like the end.
	iov := b.Words(0, 1, 0, 0)
	b.Relocate(iov, 0, value.Arg())
	b.Relocate(iov, 2, value.Arg())
	message := b.Words(0, 0, 0, 2, 0, 0, 0) // struct msghdr
	b.Relocate(message, 2, iov.Arg())
	b.Call(prog.SysFgetxattr, prog.Int(passed), b.String(name), value.Arg(), prog.Int(xattrMost)).To(size)
	b.Call(prog.Store, (iov + 24).Arg(), size.Arg())
	b.Call(prog.SysSendmsg, prog.Int(reexec.ControlFd), message.Arg(), prog.Int(unix.MSG_NOSIGNAL))
	err = o.run(b, at, func(data, _ []byte) error {
		if len(data)-1 > len(buf) {
			return unix.ERANGE
		}
		n = copy(buf, data[1:])
		return nil
	})
	return n, err
}

// run has the worker run a Program with one descriptor, and hands on the reply. If there can be no worker, the error is
// EACCES, which the caller had before.
func (o *Opener) run(b *prog.Builder, at sys.FD, reply func(data, rights []byte) error) error {
	b.SetNFds(2)
	b.Call(prog.SysClose, prog.Int(passed))
	b.Call(prog.Receive, prog.Int(reexec.ControlFd), prog.Int(0))
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ready() {
		return unix.EACCES
	}
	o.left--
	data, rights, err := o.ask(b.Program(), int(at))
	if err != nil { // the next request gets another worker
		return cmp.Or(o.dismiss(), err)
	}
	return reply(data, rights)
}

// NoOpener is true in tests of what happens where the caller may not make user namespaces.
var NoOpener bool

// Works is for tree.Opener.
func (o *Opener) Works() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready()
}

// ready makes sure that there is a worker, if there can be one.
func (o *Opener) ready() bool {
	if o.left == 0 {
		_ = o.dismiss()
	}
	if o.worker == nil && !o.over {
		o.over = NoOpener || o.hire() != nil
	}
	return !o.over
}

// hire starts the worker.
func (o *Opener) hire() (err error) {
	if o.worker, err = reexec.Hire(); err != nil {
		return err
	}
	b := prog.New(prog.Native())
	b.SetNFds(1)
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER))
	procDir := b.OpenProc()
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	b.WriteIDMaps(procDir, b.OneID(uid, uid), b.OneID(gid, gid))
	b.Close(procDir)
	const only = 1 << unix.CAP_DAC_READ_SEARCH
	b.Call(prog.SysCapset, b.Words(unix.LINUX_CAPABILITY_VERSION_3).Arg(), b.Words(only|only<<32, 0, 0).Arg())
	b.Call(prog.SysCloseRange, prog.Int(passed), prog.Int(uint32(0xffffffff)), prog.Int(0)).Tolerate(unix.ENOSYS)
	ready := b.Text(string(usualReply))
	b.Call(prog.SysWrite, prog.Int(reexec.ControlFd), ready.Arg(), ready.Len())
	b.Call(prog.Receive, prog.Int(reexec.ControlFd), prog.Int(0))
	o.left = openerMost
	if _, _, err = o.ask(b.Program()); err != nil {
		err = errors.Join(err, o.dismiss())
	}
	return err
}

// ask has the worker run a Program, and waits for the reply. An error means that the worker has ended: it failed, or
// somebody killed it.
func (o *Opener) ask(p *prog.Program, fds ...int) (data, rights []byte, err error) {
	if err := o.worker.Send(p, fds...); err != nil {
		return nil, nil, err
	}
	data, rights = make([]byte, 1+xattrMost), make([]byte, unix.CmsgSpace(4))
	n, oobn := 0, 0
	err = sys.Retry(func() (err error) {
		n, oobn, _, _, err = unix.Recvmsg(o.worker.Sock(), data, rights, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err == nil && n == 0 {
		err = unix.EPIPE
	}
	return data[:n], rights[:oobn], err
}
