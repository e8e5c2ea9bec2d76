//go:build linux

package nsexec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/rlimit"
	"github.com/nsrun/nsrun/mounts"
)

// The second Program: everything except the namespaces.

// fewMounts is how many mounts fit into a Program of the default size.
const fewMounts = 8

// scratchFd is the distance above the command's descriptors from which numbers are free: the set-up has fewer
// descriptors open at once.
const scratchFd = 64

// leastScratchFd is the least such distance, where the limit of descriptors does not allow scratchFd: the set-up of an
// overlay has half as many open at once.
const leastScratchFd = 32

// setup adds the second Program's operations: mounts, credentials, limits, and
// the command itself. status is the number of the status pipe.
func (c *Cmd) setup(b *prog.Builder, p *beginning, fds []int, status int, haveMounts bool, marks *mountprog.Marks) error {
	if c.opt.Confinement != nil {
		return c.emit(b, mountprog.Options{}, fds, status, true)
	}
	o := mountprog.Options{
		Classic:  c.opt.ClassicMounts || !features.Has(features.NewMountCalls),
		HostRoot: os.Geteuid() == 0,
		// A process that joins one may have another root than the root of the mounts.
		UserNamespace: p.flags&unix.CLONE_NEWUSER != 0,
		FirstLayer:    3 + len(c.ExtraFiles),
		Layers:        len(c.Layers),
		Bubblewrap:    c.opt.Bubblewrap,
		Terminals:     p.tty && !c.opt.Bubblewrap,
		Marks:         marks,
	}
	if c.opt.Masks != nil {
		o.Masks = o.FirstLayer + o.Layers
	}
	if c.opt.MaskedProc && o.UserNamespace {
		o.HostProc = func() {
			b.Call(prog.SysWrite, prog.Int(status), b.Words(prog.RecordHostProc, 0).Arg(), prog.Int(prog.RecordSize)).Full()
		}
	}
	overlays := func(m mounts.Mount) bool { return m.Kind == mounts.KindOverlay } // some need mount(2)
	if o.Classic || slices.ContainsFunc(c.Mounts, overlays) {
		var err error
		if o.ScratchFd, err = c.scratch(status); err != nil {
			return err
		}
	}
	if o.Classic {
		infos, err := mounts.ReadMountinfo()
		if err != nil {
			return &Error{Op: "mount", Path: "/proc/self/mountinfo", Err: err}
		}
		o.Infos, o.Resolve = infos, c.resolve
	}
	if p.surplus != 0 {
		b.Step("capabilities", "")
		dropBounding(b, ^p.surplus)
	}
	err := c.emit(b, o, fds, status, haveMounts)
	if ended := c.context().Err(); o.Classic && ended != nil {
		return &Error{Op: "start", Err: ended} // then a path may not have been resolved
	}
	if me, ok := errors.AsType[*mounts.Error](err); ok {
		return &Error{Op: Step(me.Op), Path: me.Path, Err: me.Err}
	}
	return err
}

// resolve is filepath.EvalSymlinks, but returns when the context ends, even if a file system does not respond.
func (c *Cmd) resolve(name string) (string, error) {
	ctx := c.context()
	if ctx.Done() == nil {
		return filepath.EvalSymlinks(name)
	}
	type result struct {
		name string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resolved, err := filepath.EvalSymlinks(name)
		done <- result{resolved, err}
	}()
	select {
	case r := <-done:
		return r.name, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// scratch returns the first of the numbers for Options.ScratchFd. The sandbox has only the command's descriptors and
// those of the set-up, unless it inherits this process's. Its limit is the launcher's: package syscall has raised this
// process's limit, and the program may have set another one since.
func (c *Cmd) scratch(status int) (int, error) {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	if n := theLauncher.nums.Load(); n != 0 && !reexec.InProcess {
		limit.Cur = n
	}
	end := int(min(limit.Cur, 1<<30))
	if c.opt.Inherit {
		return freeFds(status, end), nil
	}
	last := end - mountprog.ScratchFds
	if last < status+leastScratchFd {
		return 0, &Error{Op: "start", Path: c.Path, Err: syscall.EMFILE}
	}
	return min(status+scratchFd, last), nil
}

// freeFds returns the first of mountprog.ScratchFds numbers in a row, less than end, that are no descriptors of this
// process. Enough lower numbers are free for the set-up, which gets the lowest ones; if end does not allow that, it
// returns the highest ones.
func freeFds(status, end int) int {
	first, free, row := status+scratchFd, 0, 0
	for fd := range end {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			row = 0
			continue
		}
		free++
		if row++; row < mountprog.ScratchFds {
			continue
		}
		if first = fd + 1 - mountprog.ScratchFds; free > scratchFd+1 {
			break
		}
	}
	return first
}

// emit is setup without system calls. It does not allocate if the Builder is a fixed one. It is long because it
// contains the order of all steps.
func (c *Cmd) emit(b *prog.Builder, o mountprog.Options, fds []int, status int, haveMounts bool) error {
	for i, fd := range fds {
		if fd < 0 {
			b.Call(prog.SysClose, prog.Int(i)).Tolerate(syscall.EBADF)
		}
	}
	for _, fd := range c.opt.Close {
		if fd != status && fd != c.gateFile(status) { // which may have the number of one that the caller has closed
			b.Call(prog.SysClose, prog.Int(fd)).Tolerate(syscall.EBADF)
		}
	}
	if c.Background {
		b.Step("start", "")
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(0))
	} else {
		dieWithParent(b, status)
	}
	if !haveMounts {
		stepClone(b, unix.CLONE_NEWNS)
		b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	}
	c.sendMounts(b, status)
	if n := len(c.Mounts); n > fewMounts {
		b.Grow(14*n, 256*n) // roughly what a bind takes
	}
	var sockets []prog.Slot
	if c.opt.Supervisor != nil {
		sockets = superviseNetwork(b, c.opt.Supervisor)
	}
	c.allowPing(b)
	c.allowPorts(b)
	c.numberProcesses(b)
	umask := b.Slot()
	b.Call(prog.SysUmask, prog.Int(0)).To(umask)
	procDir := c.prepareNested(b)
	if c.opt.OwnRoot {
		o.Attached = func() {
			becomeRoot(b)
			if !c.Background {
				dieWithParent(b, status) // a change of ids makes the kernel forget it
			}
		}
	}
	if c.opt.Confinement == nil {
		o.Admin = c.admin()
		if err := mountprog.Compile(b, c.Mounts, o); err != nil {
			return err
		}
		c.ownDevices(b, fds)
	}
	if c.Hostname != "" || c.opt.NoHostname {
		b.Step("hostname", c.Hostname)
		name := b.Text(c.Hostname)
		b.Call(prog.SysSethostname, name.Arg(), name.Len())
	}
	c.nest(b, procDir)
	if c.opt.Supervisor == nil {
		c.limitFiles(b)
	}
	for _, r := range c.Rlimits {
		if r.Resource != unix.RLIMIT_NOFILE {
			r.set(b)
		}
	}
	c.credentials(b)
	if c.Credential != nil && !c.Background {
		dieWithParent(b, status) // a change of ids makes the kernel forget it
	}
	if c.opt.Block != nil {
		fd := prog.Int(c.opt.Block.Fd())
		b.Call(prog.SysRead, fd, b.Zero(8).Arg(), prog.Int(1)).TolerateAny()
		b.Call(prog.SysClose, fd).TolerateAny()
	}
	if c.opt.AssertNoUserNamespaces {
		assertNoUserNamespaces(b)
	}
	env, envv := c.chdir(b)
	if c.NewSession || !c.opt.SameSession && !terminal(fds) {
		b.Step("session", "")
		b.Call(prog.SysSetsid)
	}
	c.stepGate(b, status)
	var rules prog.Slot
	if c.opt.Confinement != nil {
		rules = c.prepareConfinement(b, status)
	}
	if c.forks() {
		c.fork(b)
	}
	if c.opt.Confinement != nil {
		c.enterConfinement(b, rules)
	}
	return c.execute(b, env, envv, umask, status, sockets)
}

func (r Rlimit) set(b *prog.Builder) {
	b.Step("limit", itoa(int64(r.Resource)))
	b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(r.Resource), b.Words(r.Soft, r.Hard).Arg(), prog.Null)
}

// limitFiles adds the limit of open files. With a supervisor that is done when all descriptors were sent: the kernel
// sends none for a process whose limit is lower than the number of those that its user, in all processes together, has
// sent and nobody has received yet (ETOOMANYREFS).
func (c *Cmd) limitFiles(b *prog.Builder) {
	if !b.Fixed() {
		if limit, ok := rlimit.NoFile(); ok {
			b.Step("limit", "open files")
			b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(unix.RLIMIT_NOFILE), b.Words(limit.Soft, limit.Hard).Arg(), prog.Null)
		}
	}
	for _, r := range c.Rlimits {
		if r.Resource == unix.RLIMIT_NOFILE {
			r.set(b)
		}
	}
}

// forks reports whether the command is a child of PID 1 or of a reaper.
func (c *Cmd) forks() bool {
	return !c.opt.AsPID1 && (c.Share&PID == 0 || c.opt.Reaper || c.opt.Confinement != nil || len(c.opt.Hold) > 0 || len(c.opt.LockFiles) > 0)
}

// fork adds the step that makes the command's process; later steps run in that.
func (c *Cmd) fork(b *prog.Builder) {
	for _, name := range c.opt.LockFiles {
		b.Step("lock file", name)
		f := b.Slot()
		b.Part(prog.PartTarget)
		b.Call(prog.SysOpenat, prog.AtCwd, b.String(name), b.Open(prog.NonBlock|prog.CloseOnExec), prog.Int(0)).To(f)
		b.Part(prog.PartContent)
		b.Call(prog.SysFcntl, f.Arg(), prog.Int(unix.F_SETLK), b.Words(unix.F_RDLCK, 0, 0, 0).Arg()) // struct flock: all of it
		b.Call(prog.Hold, f.Arg())
	}
	b.Step("fork", c.Path)
	for _, f := range c.opt.Hold {
		b.Call(prog.Hold, prog.Int(f.Fd()))
	}
	filters, n := prog.Null, 0
	// PID 1 is a copy of the process that cloned it: nobody in the sandbox may read its memory, from before the
	// command's first instruction.
	if c.opt.Bubblewrap {
		// But its owner may enter its namespaces, so it must not have more rights than the command.
		if c.opt.Forget != nil {
			b.Call(prog.Wipe, prog.Int(uintptr(unsafe.Pointer(unsafe.SliceData(c.opt.Forget)))), prog.Int(len(c.opt.Forget)))
		}
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(1))
		if n = len(c.Seccomp); n > 0 {
			list := b.Zero(8 * n)
			for i, f := range c.Seccomp {
				program, _ := f.program(b)
				b.Relocate(list, i, program.Arg())
			}
			filters = list.Arg()
		}
	}
	how := 0
	if c.Background {
		how |= prog.ForkLinger
	}
	if !c.opt.HoldSignals {
		how |= prog.ForkForward
	}
	if c.opt.Confinement != nil {
		how |= prog.ForkDomain
	}
	ask, end := c.times()
	b.Call(prog.Fork, prog.Int(how), filters, prog.Int(n), prog.Int(ask), prog.Int(end))
	for _, f := range c.opt.Hold {
		b.Call(prog.SysClose, prog.Int(f.Fd()))
	}
	if c.opt.Bubblewrap && !c.Background {
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	}
}

// dieWithParent adds what ends the sandbox when its parent ends; status is the number of the status pipe.
func dieWithParent(b *prog.Builder, status int) { endWithParent(b, status, int(unix.SIGKILL)) }

// endWithParent is dieWithParent with another signal.
func endWithParent(b *prog.Builder, status, signal int) {
	b.Step("start", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(signal))
	// If the parent died before that, no process reads the status pipe any more.
	poll := b.Data([]byte{byte(status), byte(status >> 8), byte(status >> 16), byte(status >> 24), 0, 0, 0, 0})
	zero := b.Words(0, 0)
	b.Call(prog.SysPpoll, poll.Arg(), prog.Int(1), zero.Arg(), prog.Null)
	alive := b.If(poll+4, unix.POLLERR<<16, 0)
	b.Fail(syscall.ESRCH)
	b.Here(alive)
}

// terminal reports whether one of the three standard descriptors is one.
func terminal(fds []int) bool {
	for _, fd := range fds[:3] {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return true
		}
	}
	return false
}

// credentials adds what gives the command its ids, and takes away what it must not have.
func (c *Cmd) credentials(b *prog.Builder) {
	if cred := c.Credential; cred != nil {
		b.Step("credential", itoa(int64(cred.UID))+":"+itoa(int64(cred.GID)))
		if c.Capabilities != 0 {
			b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_KEEPCAPS), prog.Int(1))
		}
		groups := make([]byte, 0, 4*len(cred.Groups))
		for _, g := range cred.Groups {
			groups = append(groups, byte(g), byte(g>>8), byte(g>>16), byte(g>>24))
		}
		set := b.Call(prog.SysSetgroups, prog.Int(len(cred.Groups)), b.Data(groups).Arg())
		if len(cred.Groups) == 0 {
			set.Tolerate(syscall.EPERM) // setgroups(2) is denied where one id is mapped
		}
		b.Call(prog.SysSetresgid, prog.Int(cred.GID), prog.Int(cred.GID), prog.Int(cred.GID))
		b.Call(prog.SysSetresuid, prog.Int(cred.UID), prog.Int(cred.UID), prog.Int(cred.UID))
	}
	// This process has no capabilities, so other processes without any could look into it; executing the command
	// ends that.
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(0))
	if !c.opt.KeepCapabilities {
		c.setCapabilities(b)
	}
	c.stepCapabilities(b)
	for n := range maxCaps {
		if c.Capabilities&(1<<n) != 0 {
			raise := b.Call(prog.SysPrctl, prog.Int(unix.PR_CAP_AMBIENT), prog.Int(unix.PR_CAP_AMBIENT_RAISE), prog.Int(n), prog.Int(0))
			if c.opt.KeepCapabilities {
				raise.Tolerate(syscall.EPERM) // what cannot be inherited
			}
		}
	}
	b.Step("no_new_privs", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_NO_NEW_PRIVS), prog.Int(1), prog.Int(0), prog.Int(0))
}

func (c *Cmd) stepCapabilities(b *prog.Builder) {
	if !b.Fixed() {
		b.Step("capabilities", c.Capabilities.String())
	}
}

func (c *Cmd) setCapabilities(b *prog.Builder) {
	c.stepCapabilities(b)
	lo, hi := uint64(uint32(c.Capabilities)), uint64(c.Capabilities>>32)
	// struct __user_cap_header_struct; then twice effective, permitted, inheritable.
	header := b.Words(unix.LINUX_CAPABILITY_VERSION_3)
	data := b.Words(lo|lo<<32, lo|hi<<32, hi|hi<<32)
	b.Call(prog.SysCapset, header.Arg(), data.Arg())
}
