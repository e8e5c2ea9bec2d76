package nsexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// A sandbox is set up by two Programs: the first makes the namespaces, which
// depends on little (see profile) and can be done before the command is known;
// the second does all the rest. A small process runs both in one clone; an
// embedding program sends the first to its launcher and the second to the clone.

// stage1 marks steps of the first Program in reports.
const stage1 = 1 << 31

// sandbox is a running clone and our end of its status pipe.
type sandbox struct {
	pid    int
	status *os.File // read end, closed by exit; nil: none
	sock   sys.FD   // to the clone, until it got its second Program
	gen    int64    // of the launcher that was to clone it
	first  *prog.Program
	waited bool // it was made before it was wanted, and may have died since

	unknown bool // the reports ended before anybody said its pid
	mounts  bool // it has a mount namespace already
}

// close gives up a sandbox that did not start a command, and waits for its end.
func (s *sandbox) close() {
	s.endSocket()
	// Which process it is, the launcher may not have said yet. Without its socket
	// it ends in any case; with both the reports end.
	for s.pid == 0 && s.status != nil {
		r, err := readRecord(s.status)
		if err != nil {
			break
		}
		if r.Kind == prog.RecordPid {
			s.pid = int(r.Value)
		}
	}
	if s.pid == 0 {
		s.pid = s.sender()
	}
	s.sock.Close()
	if s.pid > 0 {
		_ = unix.Kill(s.pid, unix.SIGKILL)
		sys.Wait(s.pid)
	}
	if s.status != nil {
		_ = s.status.Close()
	}
}

// endSocket tells the clone that nothing more is to be expected.
func (s *sandbox) endSocket() {
	if s.sock != sys.None {
		_ = unix.Shutdown(int(s.sock), unix.SHUT_WR)
	}
}

// sender is the process id of the clone as the kernel has it from the one byte
// that every clone sends first; 0 if there is none. The launcher is quicker to say
// it, but may be killed before it does.
func (s *sandbox) sender() int {
	if s.sock == sys.None {
		return 0
	}
	var b [1]byte
	var control [64]byte
	_, n, _, _, err := unix.Recvmsg(int(s.sock), b[:], control[:], unix.MSG_DONTWAIT)
	if err != nil {
		return 0
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return 0
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}

// statusPipe makes a status pipe. Our end is read through the runtime's poller: a
// goroutine that waits there leaves its processor idle, while one in a blocking
// read would keep the runtime's monitor looking at it every 20 µs.
func statusPipe() (r *os.File, w sys.FD, err error) {
	rfd, w, err := sys.Pipe()
	if err != nil {
		return nil, w, err
	}
	if err := unix.SetNonblock(int(rfd), true); err != nil {
		rfd.Close()
		w.Close()
		return nil, w, err
	}
	return os.NewFile(uintptr(rfd), "status"), w, nil
}

// exit reads what the sandbox reported at its end: the command's wait status, if
// there was a PID 1 to tell it.
func (s *sandbox) exit() (ws syscall.WaitStatus, ok bool) {
	defer func() { _ = s.status.Close() }()
	for {
		r, err := readRecord(s.status)
		if err != nil {
			return 0, false
		}
		if r.Kind == prog.RecordExit {
			return syscall.WaitStatus(r.Value), true
		}
	}
}

var (
	errTooManyFiles = fmt.Errorf("%w (more than 252 descriptors cannot be passed)", syscall.EINVAL) // SCM_MAX_FD, and the status pipe
	errFilterLength = fmt.Errorf("%w (a filter has 1 to 4096 instructions)", syscall.EINVAL)        // BPF_MAXINSNS
)

var errGone = errors.New("the sandbox went away before the command was executed")

// readRecord reads one Record; the end of them is errGone.
func readRecord(f *os.File) (r prog.Record, err error) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&r)), prog.RecordSize)
	n, err := f.Read(b)
	if err == io.EOF || err == nil && n != len(b) {
		err = errGone
	}
	return r, err
}

// profile is what the first Program depends on: sandboxes with equal profiles
// are made of interchangeable beginnings.
type profile struct {
	flags    uint64 // of clone3(2), without CLONE_NEWNS
	uid, gid string // id maps
	self     bool   // the child writes them
	bounding Capabilities
	who      string // of a launcher: its credentials
}

func (c *Cmd) profile() profile {
	p := profile{flags: (All &^ c.Share).flags(), bounding: c.Capabilities}
	if !reexec.InProcess {
		p.who = credentials()
	}
	if p.flags&unix.CLONE_NEWUSER != 0 {
		m := mapIDs(c.UIDMap, c.GIDMap)
		p.uid, p.gid, p.self = text(m.uid), text(m.gid), m.self
	}
	return p
}

// namespaces adds the first Program's operations. Descriptors were installed.
func (p *profile) namespaces(b *prog.Builder) {
	b.Step("start", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	if p.self {
		write := func(op, name, data string) {
			b.Step(op, name)
			f := b.Slot()
			b.Call(prog.SysOpenat, prog.AtCwd, b.String(name), b.Open(prog.WriteOnly|prog.CloseOnExec), prog.Int(0)).To(f)
			b.Call(prog.SysWrite, f.Arg(), b.Data([]byte(data)).Arg(), prog.Int(len(data))).Full()
			b.Close(f)
		}
		write("uid map", "/proc/self/uid_map", p.uid)
		write("gid map", "/proc/self/setgroups", "deny")
		write("gid map", "/proc/self/gid_map", p.gid)
	}
	if rest := p.flags &^ (unix.CLONE_NEWUSER | unix.CLONE_NEWPID); rest != 0 && !p.parentMaps() {
		b.Step("clone", names(rest))
		b.Call(prog.SysUnshare, prog.Int(rest))
	}
	// A key ring of its own: the caller's session keys stay outside. Kernels
	// without keys, and full quotas, are no reason to fail: the filter of nsrun
	// run refuses keyctl altogether.
	b.Call(prog.SysKeyctl, prog.Int(unix.KEYCTL_JOIN_SESSION_KEYRING), prog.Null).
		Tolerate(syscall.ENOSYS, syscall.EPERM, syscall.EDQUOT, syscall.EACCES)
	if p.flags&unix.CLONE_NEWNET != 0 {
		loopback(b)
	}
	b.Step("capabilities", "")
	for n := range maxCaps {
		if p.bounding&(1<<n) == 0 {
			// EPERM: without CAP_SETPCAP nothing can be dropped, and nothing has to be:
			// no_new_privs keeps execve from giving any.
			b.Call(prog.SysPrctl, prog.Int(unix.PR_CAPBSET_DROP), prog.Int(n)).Tolerate(syscall.EINVAL, syscall.EPERM)
		}
	}
}

// parentMaps says that somebody with privileges has to write the id maps.
func (p *profile) parentMaps() bool { return p.flags&unix.CLONE_NEWUSER != 0 && !p.self }

// cloneFlags are those for clone3(2) itself. Where the child has the right to, it
// makes the other namespaces on its own: many clones of one launcher then do not
// wait for each other.
func (p *profile) cloneFlags() uint64 {
	if p.parentMaps() {
		return p.flags
	}
	return p.flags & (unix.CLONE_NEWUSER | unix.CLONE_NEWPID)
}

func names(flags uint64) string {
	var n []string
	for _, f := range [...]struct {
		flag uint64
		name string
	}{
		{unix.CLONE_NEWUSER, "user"}, {unix.CLONE_NEWPID, "pid"}, {unix.CLONE_NEWNET, "net"},
		{unix.CLONE_NEWIPC, "ipc"}, {unix.CLONE_NEWUTS, "uts"}, {unix.CLONE_NEWCGROUP, "cgroup"},
		{unix.CLONE_NEWNS, "mount"},
	} {
		if flags&f.flag != 0 {
			n = append(n, f.name)
		}
	}
	return strings.Join(n, ", ") + " namespaces"
}

// loopback brings lo up; the kernel then gives it its addresses (netdevice(7)).
func loopback(b *prog.Builder) {
	b.Step("loopback", "lo")
	ifreq := make([]byte, 40)
	copy(ifreq, "lo")
	ifreq[16] = unix.IFF_UP
	s := b.Slot()
	b.Call(prog.SysSocket, prog.Int(unix.AF_INET), prog.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), prog.Int(0)).To(s)
	b.Call(prog.SysIoctl, s.Arg(), prog.Int(unix.SIOCSIFFLAGS), b.Data(ifreq).Arg())
	b.Close(s)
}

// fewMounts is how many mounts fit into a Program as it is made.
const fewMounts = 8

// scratchFd is how far above the command's descriptors numbers are free: the
// set-up has fewer open at once.
const scratchFd = 64

// setup adds the second Program's operations: mounts, credentials, limits, and
// the command itself.
func (c *Cmd) setup(b *prog.Builder, p profile, fds []int, haveMounts bool) error {
	o := mounts.Options{
		Classic:       c.ClassicMounts || !features.NewMounts(),
		HostRoot:      os.Geteuid() == 0,
		UserNamespace: p.flags&unix.CLONE_NEWUSER != 0,
		ScratchFd:     len(fds) + scratchFd,
	}
	if o.Classic {
		infos, err := mounts.ReadMountinfo()
		if err != nil {
			return &Error{Op: "mount", Path: "/proc/self/mountinfo", Err: err}
		}
		o.Infos, o.Resolve = infos, filepath.EvalSymlinks
	}
	for i, fd := range fds {
		if fd < 0 {
			b.Call(prog.SysClose, prog.Int(i)).Tolerate(syscall.EBADF)
		}
	}
	if c.Background {
		b.Step("start", "")
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(0))
	} else {
		dieWithParent(b, len(fds))
	}
	if !haveMounts {
		b.Step("clone", names(unix.CLONE_NEWNS))
		b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	}
	if n := len(c.Mounts); n > fewMounts {
		b.Grow(12*n, 256*n) // roughly what a bind takes
	}
	umask := b.Slot()
	b.Call(prog.SysUmask, prog.Int(0)).To(umask)
	if err := c.Mounts.Compile(b, o); err != nil {
		if me, ok := errors.AsType[*mounts.Error](err); ok {
			return &Error{Op: me.Op, Path: me.Path, Err: me.Err}
		}
		return err
	}
	if c.Hostname != "" {
		b.Step("hostname", c.Hostname)
		b.Call(prog.SysSethostname, b.Data([]byte(c.Hostname)).Arg(), prog.Int(len(c.Hostname)))
	}
	if c.Dir != "" {
		b.Step("chdir", c.Dir)
		b.Call(prog.SysChdir, b.String(c.Dir))
	} else {
		b.Step("chdir", "/")
		b.Call(prog.SysChdir, b.String(cwd())).Tolerate(syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP)
	}
	for _, r := range c.Rlimits {
		b.Step("limit", itoa(int64(r.Resource)))
		b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(r.Resource), b.Words(r.Soft, r.Hard).Arg(), prog.Null)
	}
	c.credentials(b)
	if c.Credential != nil && !c.Background {
		dieWithParent(b, len(fds)) // a change of ids makes the kernel forget it
	}
	if c.NewSession || !c.SameSession && !terminal(fds) {
		b.Step("session", "")
		b.Call(prog.SysSetsid)
	}
	if p.flags&unix.CLONE_NEWPID != 0 && !c.AsPID1 {
		b.Step("fork", c.Path)
		// PID 1 is a copy of the process that cloned it: its memory is nobody's
		// business in here, from before the command's first instruction.
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(0))
		linger := 0
		if c.Background {
			linger = 1
		}
		b.Call(prog.Fork, prog.Int(linger))
	}
	return c.execute(b, umask, len(fds))
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

// dieWithParent adds what ends the sandbox when its parent ends; status is the
// number of the status pipe.
func dieWithParent(b *prog.Builder, status int) {
	b.Step("start", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	// If the parent died before that, nobody reads the status pipe any more.
	poll := b.Data([]byte{byte(status), byte(status >> 8), 0, 0, 0, 0, 0, 0})
	zero := b.Words(0, 0)
	b.Call(prog.SysPpoll, poll.Arg(), prog.Int(1), zero.Arg(), prog.Null)
	alive := b.If(poll+4, unix.POLLERR<<16, 0)
	b.Fail(syscall.ESRCH)
	b.Here(alive)
}

// credentials adds what makes the command who it is, and takes away what it must
// not have.
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
	b.Step("capabilities", c.Capabilities.String())
	lo, hi := uint64(uint32(c.Capabilities)), uint64(c.Capabilities>>32)
	// struct __user_cap_header_struct; then twice effective, permitted, inheritable.
	header := b.Words(unix.LINUX_CAPABILITY_VERSION_3)
	data := b.Words(lo|lo<<32, lo|hi<<32, hi|hi<<32)
	b.Call(prog.SysCapset, header.Arg(), data.Arg())
	for n := range maxCaps {
		if c.Capabilities&(1<<n) != 0 {
			b.Call(prog.SysPrctl, prog.Int(unix.PR_CAP_AMBIENT), prog.Int(unix.PR_CAP_AMBIENT_RAISE), prog.Int(n), prog.Int(0))
		}
	}
	b.Step("no_new_privs", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_NO_NEW_PRIVS), prog.Int(1), prog.Int(0), prog.Int(0))
}

// defaultPath is where commands are looked for if the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute adds the command's execution, and before it what the command must not
// share with the set-up. status is the number of the status pipe.
func (c *Cmd) execute(b *prog.Builder, umask prog.Slot, status int) error {
	for _, s := range append(append([]string{c.Path, c.Dir, c.Hostname}, c.Args...), c.Environ()...) {
		if strings.IndexByte(s, 0) >= 0 {
			return &Error{Op: "exec", Path: c.Path, Err: syscall.EINVAL}
		}
	}
	b.Step("exec", c.Path)
	if c.Umask != nil {
		b.Call(prog.SysUmask, prog.Int(*c.Umask&0o777))
	} else {
		b.Call(prog.SysUmask, umask.Arg())
	}
	b.Call(prog.SysSigprocmask, prog.Int(unix.SIG_SETMASK), b.Words(signalMask()).Arg(), prog.Null, prog.Int(8))
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	env := c.Environ()
	argv, envv := b.Strings(args), b.Strings(env)
	if c.executesItself() {
		// Nobody will be left to report that it was executed. So it says that it is
		// about to be, to be told from a process that somebody killed before.
		b.Call(prog.SysWrite, prog.Int(status), b.Words(prog.RecordStarted, 0).Arg(), prog.Int(prog.RecordSize)).Full()
	}
	// Last, so that filters need not let the set-up pass, nor PID 1.
	for _, f := range c.Seccomp {
		f.install(b)
	}
	b.Step("exec", c.Path)
	for _, path := range candidates(c.Path, env) {
		b.Call(prog.Exec, b.String(path), argv.Arg(), envv.Arg()).
			Tolerate(syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR, syscall.ENODEV, syscall.ETIMEDOUT, syscall.ELOOP, syscall.ENAMETOOLONG)
	}
	b.Call(prog.ExecFail)
	return nil
}

// candidates are the paths at which name is tried, as execvp(3) does it.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	var c []string
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		c = append(c, dir+"/"+name)
	}
	return c
}

// start brings the sandbox up. It returns after the command was executed.
func start(c *Cmd, files []*os.File) (*sandbox, error) {
	p := c.profile()
	defer runtime.KeepAlive(files)
	fds := make([]int, len(files), len(files)+1)
	for i, f := range files {
		fds[i] = -1
		if f == nil {
			continue
		}
		if fds[i] = int(f.Fd()); fds[i] < 0 {
			return nil, &Error{Op: "start", Path: f.Name(), Err: os.ErrClosed}
		}
	}
	if len(fds) >= reexec.MaxFds {
		return nil, &Error{Op: "start", Path: c.Path, Err: errTooManyFiles}
	}
	for _, f := range c.Seccomp {
		if len(f) == 0 || len(f) > maxFilter {
			return nil, &Error{Op: "seccomp", Err: errFilterLength}
		}
	}
	if !reexec.InProcess {
		s, err := ready.take(p)
		if err == nil {
			s, err = c.complete(s, p, fds, cloneInLauncher)
		}
		if err == nil {
			ready.refill(p)
		}
		return s, err
	}
	if s := begun(p); s != nil {
		return c.complete(s, p, fds, cloneHere)
	}
	if !p.parentMaps() {
		return startHere(c, p, fds)
	}
	s, err := spawnFirst(p, cloneHere)
	if err != nil {
		return nil, err
	}
	return c.complete(s, p, fds, cloneHere)
}

// complete gives a sandbox that has its namespaces the rest of its work.
func (c *Cmd) complete(s *sandbox, p profile, fds []int, clone cloneFunc) (*sandbox, error) {
	second, err := c.secondProgram(p, fds, s.mounts)
	if err != nil {
		s.close()
		return nil, err
	}
	gen := theLauncher.gen.Load()
	for try := 0; ; try++ {
		sendErr := s.send(second, fds)
		s.endSocket()
		// Also where nothing could be sent: then the first Program says why.
		err := s.await(second, c)
		if err == nil {
			s.sock.Close()
			return s, nil
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
		// Somebody may have killed a sandbox that waited, or the launcher before it
		// cloned: once more, with a fresh one.
		if lost := s.waited || s.unknown || sendErr != nil; !lost || try > 0 {
			if sendErr != nil {
				err = &Error{Op: "start", Path: c.Path, Err: sendErr}
			}
			return nil, err
		}
		theLauncher.drop(gen)
		if s, err = spawnFirst(p, clone); err != nil {
			return nil, err
		}
		if second, err = c.secondProgram(p, fds, s.mounts); err != nil {
			s.close()
			return nil, err
		}
	}
}

// secondProgram is the second Program, for these descriptors and the status pipe.
func (c *Cmd) secondProgram(p profile, fds []int, haveMounts bool) (*prog.Program, error) {
	n := len(fds)
	b := prog.New(prog.Native())
	b.SetNFds(n + 1)
	b.Call(prog.Install, prog.Int(n))
	if err := c.setup(b, p, fds, haveMounts); err != nil {
		return nil, err
	}
	return b.Program(), nil
}

// startHere runs both Programs, as one, in a clone of this process.
func startHere(c *Cmd, p profile, fds []int) (*sandbox, error) {
	n := len(fds)
	b := prog.New(prog.Native())
	b.SetNFds(n + 1)
	b.SetFlags(p.cloneFlags())
	b.Call(prog.Install, prog.Int(n))
	p.namespaces(b)
	if err := c.setup(b, p, fds, false); err != nil {
		return nil, err
	}
	program := b.Program()
	r, w, err := statusPipe()
	if err != nil {
		return nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	defer w.Close()
	pid, errno := reexec.Spawn(program.Block(), append(fds, int(w)))
	if errno != 0 {
		_ = r.Close()
		return nil, &Error{Op: "clone", Path: names(p.flags), Err: errno}
	}
	w.Close()
	s := &sandbox{pid: pid, status: r, sock: sys.None}
	if err := s.await(program, c); err != nil {
		return nil, err
	}
	return s, nil
}

// await reads reports until the command was executed, or something failed; then
// the sandbox is gone.
func (s *sandbox) await(second *prog.Program, c *Cmd) (err error) {
	if c.ctx != nil && c.ctx.Done() != nil {
		// A mount may hang, and nobody can be waited for then.
		stop := context.AfterFunc(c.ctx, func() { _ = s.status.SetReadDeadline(time.Unix(1, 0)) })
		defer func() {
			if !stop() && err == nil {
				_ = s.status.SetReadDeadline(time.Time{})
			}
		}()
	}
	executing := false
	for {
		r, err := readRecord(s.status)
		if errors.Is(err, errGone) && executing {
			if s.pid == 0 {
				s.close()
				return &Error{Op: "start", Path: c.Path, Err: err}
			}
			return nil // the status pipe was closed by execve
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid > 0 {
				_ = unix.Kill(s.pid, unix.SIGKILL)
			}
			_ = s.status.SetReadDeadline(time.Time{})
			go s.close()
			return &Error{Op: "start", Path: c.Path, Err: c.ctx.Err()}
		}
		if err != nil {
			s.unknown = s.pid == 0
			s.close()
			return &Error{Op: "start", Path: c.Path, Err: err}
		}
		switch r.Kind {
		case prog.RecordPid:
			s.pid = int(r.Value)
			if r.Errno != 0 {
				s.pid = 0
				s.close()
				return &Error{Op: "clone", Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
			}
		case prog.RecordStarted:
			if c.executesItself() {
				executing = true // or about to
				continue
			}
			if s.pid > 0 {
				return nil
			}
			if err := s.awaitPid(); err != nil {
				return err
			}
			return nil
		case prog.RecordFail:
			if s.pid == 0 {
				if err := s.awaitPid(); err != nil {
					return err
				}
			}
			s.close()
			return failure(r, s.first, second)
		}
	}
}

// executesItself says that the clone is the command, not a PID 1 above it.
func (c *Cmd) executesItself() bool { return c.AsPID1 || c.Share&PID != 0 }

// awaitPid reads the process id, which another process reports, or the clone's
// first byte.
func (s *sandbox) awaitPid() error {
	defer func() { _ = s.status.SetReadDeadline(time.Time{}) }()
	gone := false
	for s.pid == 0 {
		_ = s.status.SetReadDeadline(time.Now().Add(launcherPatience))
		r, err := readRecord(s.status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid = s.sender(); s.pid != 0 {
				continue
			}
			if gone {
				s.endSocket() // without which what it has cloned ends
			}
			// What it said before its end may have come after we looked: once more.
			gone = gone || theLauncher.gone(s.gen)
			continue
		}
		if err != nil {
			s.unknown = true
			s.close()
			return &Error{Op: "start", Err: err}
		}
		if r.Kind == prog.RecordPid {
			if r.Errno != 0 {
				s.close()
				return &Error{Op: "clone", Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
			}
			s.pid = int(r.Value)
		}
	}
	return nil
}

// failure is a report as an error.
func failure(r prog.Record, first, second *prog.Program) error {
	p := second
	if r.Value&stage1 != 0 {
		p = first
	}
	i := int(r.Value &^ stage1)
	e := &Error{Op: "start", Err: syscall.Errno(r.Errno), Program: int(r.Op)}
	if p != nil && i < len(p.Steps) {
		e.Op, e.Path = p.Steps[i].Op, p.Steps[i].Path
	}
	return e
}
