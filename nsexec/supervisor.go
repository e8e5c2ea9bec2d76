//go:build linux

package nsexec

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// maxSockets is how many descriptors fit into one message, including the listener.
const maxSockets = 64

var errSupervisor = errors.New("a supervisor needs its own PID 1, and for sockets a network namespace of the sandbox's own: no Inherit, no Bubblewrap, no shared or joined network")

// supervise adds the socket over which the listener is sent to the command's descriptors, and returns this process's
// end, ours.
func (c *Cmd) supervise(files []*os.File) (ours sys.FD, _ []*os.File, err error) {
	s := c.opt.Supervisor
	if s == nil {
		return sys.None, files, nil
	}
	shared := c.Share&Net != 0 || c.opt.Join.Net != nil
	if c.opt.Inherit || c.opt.Bubblewrap || shared && (len(s.Links)+len(s.Sockets) > 0 || s.NoConnect) || len(s.Sockets) >= maxSockets {
		return sys.None, nil, &Error{Op: "supervise", Path: c.Path, Err: errSupervisor}
	}
	ours, theirs, err := sys.SeqPacket()
	if err != nil {
		return sys.None, nil, &Error{Op: "supervise", Path: c.Path, Err: err}
	}
	f := os.NewFile(uintptr(theirs), "supervisor")
	c.childFiles = append(c.childFiles, f)
	if s.Early {
		c.handed = make(chan error, 1)
		go func() { c.handed <- c.awaitEarly(ours) }()
	}
	return ours, append(files, f), nil
}

// supervisorFile is the number of the supervisor's socket in the sandbox. If there is none, the next one is the number
// of what follows.
func (c *Cmd) supervisorFile(status int) int {
	if c.leavesMounts() {
		status--
	}
	if c.opt.Supervisor != nil {
		status--
	}
	return status
}

// handedOver passes on what the sandbox sent.
func (c *Cmd) handedOver(ours sys.FD) error {
	switch {
	case c.opt.Supervisor == nil:
		return nil
	case c.handed != nil:
		// The command was executed, so all that the sandbox sends has arrived. Nothing has if the command's process was
		// killed before that, and nothing ends the wait for it, because this process has the other end of the socket, too.
		_ = unix.Shutdown(int(ours), unix.SHUT_RD)
		err := <-c.handed
		c.handed = nil
		return err
	}
	return c.handOver(lastFiles(ours))
}

// lastFiles receives what was sent on the socket. If a sandbox had to be made twice, that is what the second one sent.
func lastFiles(ours sys.FD) (last []*os.File) {
	for {
		files, err := receiveFiles(ours, unix.MSG_DONTWAIT)
		if err != nil {
			return last
		}
		closeFiles(last)
		last = files
	}
}

// awaitEarly passes on what the sandbox sends, as soon as it arrives.
func (c *Cmd) awaitEarly(ours sys.FD) error {
	files, err := receiveFiles(ours, 0)
	if err != nil {
		return &Error{Op: "supervise", Path: c.Path, Err: err}
	}
	return c.handOver(files)
}

func (c *Cmd) handOver(got []*os.File) error {
	s := c.opt.Supervisor
	if none := s.Optional && len(got) == len(s.Sockets); none || s.Filter == nil {
		s.Without = none
		got = append([]*os.File{nil}, got...)
	}
	if len(got) != 1+len(s.Sockets) {
		closeFiles(got)
		return &Error{Op: "supervise", Path: c.Path, Err: errGone}
	}
	err := s.Started(got[0], got[1:])
	if errno, bare := err.(syscall.Errno); bare {
		err = &Error{Op: "supervise", Path: c.Path, Err: errno}
	}
	return err
}

// endSupervise closes the socket, for which a goroutine may be waiting.
func (c *Cmd) endSupervise(ours sys.FD) {
	if c.handed != nil {
		_ = unix.Shutdown(int(ours), unix.SHUT_RDWR)
		<-c.handed
		c.handed = nil
	}
	ours.Close()
}

func receiveFiles(sock sys.FD, flags int) (files []*os.File, err error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4*maxSockets))
	n, oobn := 0, 0
	err = sys.Retry(func() (err error) {
		n, oobn, _, _, err = unix.Recvmsg(int(sock), b[:], control, flags|unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errGone
	}
	messages, err := unix.ParseSocketControlMessage(control[:oobn])
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "sandbox"))
		}
	}
	return files, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // of nil that is an error
	}
}

// superviseNetwork adds the steps in the new network namespace that the supervisor needs, and returns the sockets.
func superviseNetwork(b *prog.Builder, s *sandbox.Supervisor) []prog.Slot {
	for _, l := range s.Links {
		b.Step("network", "rtnetlink")
		nl := b.Slot()
		b.Call(prog.SysSocket, prog.Int(unix.AF_NETLINK), prog.Int(unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), prog.Int(unix.NETLINK_ROUTE)).To(nl)
		text := b.TextBytes(l.Messages)
		b.Call(prog.SysWrite, nl.Arg(), text.Arg(), text.Len()).Full()
		if !l.Optional {
			linkAnswer(b, nl)
		}
		b.Close(nl)
	}
	sockets := make([]prog.Slot, len(s.Sockets))
	for i, k := range s.Sockets {
		b.Step("network", "socket")
		sockets[i] = b.Slot()
		fd := sockets[i].Arg()
		b.Call(prog.SysSocket, prog.Int(k.Domain), prog.Int(k.Type|unix.SOCK_CLOEXEC), prog.Int(k.Protocol)).To(sockets[i])
		if k.Addr != nil {
			b.Call(prog.SysBind, fd, b.Data(k.Addr).Arg(), prog.Int(len(k.Addr)))
		}
		if k.Backlog > 0 {
			b.Call(prog.SysListen, fd, prog.Int(k.Backlog))
		}
	}
	return sockets
}

// linkAnswer adds a check of the answer of rtnetlink, which has done its work when write(2) returns: it must not be an
// error.
func linkAnswer(b *prog.Builder, nl prog.Slot) {
	const size = 1024
	reply := b.Zero(size)
	none := b.Call(prog.SysRead, nl.Arg(), reply.Arg(), prog.Int(size)).Tolerate(syscall.EAGAIN).OnTolerated()
	// struct nlmsghdr, then the negative errno of struct nlmsgerr.
	for _, e := range [...]syscall.Errno{syscall.EPERM, syscall.EOPNOTSUPP, syscall.EEXIST, syscall.ENODEV, syscall.ERANGE} {
		is := b.If(reply+16, 1<<32-1, -uint32(e))
		other := b.Jump()
		b.Here(is)
		b.Fail(e)
		b.Here(other)
	}
	b.Fail(syscall.EINVAL)
	b.Here(none)
}

// listenerOf adds the filter, and returns its listener, and a label that continues without one (Supervisor.Optional).
func listenerOf(b *prog.Builder, s *sandbox.Supervisor) (listener prog.Slot, without prog.Label) {
	listener = b.Slot()
	program, code := Filter(s.Filter).program(b)
	install := func(flags int) prog.Ref {
		return b.Call(prog.SysSeccomp, prog.Int(unix.SECCOMP_SET_MODE_FILTER), prog.Int(flags), program.Arg())
	}
	allowNotified := func() {
		for i, in := range s.Filter {
			if in.Code == seccomp.Return && in.K == seccomp.Notify {
				b.Call(prog.Store, (code + prog.Ptr(8*i)).Arg(), prog.Int(uint64(seccomp.Return)|seccomp.Allow<<32))
			}
		}
	}
	if s.Optional && byPrctlAlone() {
		allowNotified()
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_SECCOMP), prog.Int(unix.SECCOMP_MODE_FILTER), program.Arg())
		return listener, b.Jump()
	}
	// Only a fatal signal interrupts a call that the supervisor is handling: otherwise each signal with a handler
	// would make it handle the call twice. Linux 5.19.
	first := install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).To(listener).Tolerate(syscall.EINVAL)
	second := install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER).To(listener)
	if s.Optional {
		first.TolerateAny()
		have := second.TolerateAny().OnSuccess()
		allowNotified()
		install(0)
		without = b.Jump()
		b.Here(have)
	}
	b.Here(first.OnSuccess())
	return listener, without
}

// superviseCommand adds the filter, and sends its listener and the sockets over sock. No code of the command has run
// yet.
func superviseCommand(b *prog.Builder, s *sandbox.Supervisor, sock int, sockets []prog.Slot) {
	if s.NoConnect {
		refuseConnects(b) // before the filter, which may tell of it: nobody answers yet
	}
	b.Step("supervise", "")
	send := func(fds []prog.Slot) {
		b.SendFiles(prog.Int(sock), prog.Int(uint64(sandbox.HandOver)<<32|unix.MSG_NOSIGNAL), fds)
		for _, fd := range fds {
			b.Close(fd)
		}
	}
	if s.Filter == nil {
		send(sockets)
	} else {
		listener, without := listenerOf(b, s)
		send(append([]prog.Slot{listener}, sockets...))
		if s.Optional {
			done := b.Jump()
			b.Here(without)
			if len(sockets) > 0 {
				send(sockets)
			}
			b.Here(done)
		}
	}
	b.Call(prog.SysClose, prog.Int(sock))
	if s.Seal != nil {
		seal, _ := Filter(s.Seal).program(b)
		b.Call(prog.SysSeccomp, prog.Int(unix.SECCOMP_SET_MODE_FILTER), prog.Int(0), seal.Arg())
	}
}

// refuseConnects makes the kernel refuse every TCP connect(2).
func refuseConnects(b *prog.Builder) {
	b.Step("landlock", "")
	rules := b.Slot()
	// struct landlock_ruleset_attr: it handles no file system access and one network access, and no rule allows
	// that.
	attr := b.Words(0, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP)
	b.Call(prog.SysLandlockCreate, attr.Arg(), prog.Int(16), prog.Int(0)).To(rules)
	b.Call(prog.SysLandlockRestrict, rules.Arg(), prog.Int(0))
	b.Close(rules)
}
