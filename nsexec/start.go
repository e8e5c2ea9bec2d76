//go:build linux

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
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/rlimit"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// A sandbox is set up by two Programs: the first makes the namespaces, which
// depends on little (see profile) and can be done before the command is known;
// the second does all the rest. A small process runs both in one clone; an
// embedding program sends the first to its launcher and the second to the clone.

// stage1 marks steps of the first Program in reports.
const stage1 = 1 << 31

// clone is a running clone and our end of its status pipe.
type clone struct {
	ctx    context.Context // bounds every wait until the command was executed
	pid    int
	status *os.File // read end, closed by exit; nil: none
	sock   sys.FD   // to the clone, until it got its second Program
	gen    int64    // of the launcher that was to clone it
	first  *prog.Program
	waited bool // it was made before it was wanted, and may have died since

	timedOut bool // the command's time was up, as PID 1 has it

	unknown bool // the reports ended before anybody said its pid
	mounts  bool // it has a mount namespace already

	counters *sandbox.Counters // nil: nobody asks for them

	childStatus int    // the number of the clone's end of the status pipe, if it inherited it
	text        string // what a failed operation found
}

// close gives up a sandbox that did not start a command, and waits for its end,
// whose status it returns: it may have ended by itself before.
func (s *clone) close() (status unix.WaitStatus) {
	s.counters.Close(false)
	s.endSocket()
	// Which process it is, the launcher may not have said yet. Without its socket
	// it ends in any case; with both the reports end.
	for s.pid == 0 && s.status != nil {
		_ = s.status.SetReadDeadline(time.Now().Add(patience))
		r, err := readRecord(s.status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid = s.sender(); s.pid == 0 {
				theLauncher.drop(s.gen) // it hangs
			}
			continue
		}
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
		status = sys.Wait(s.pid)
	}
	if s.status != nil {
		_ = s.status.Close()
	}
	return status
}

// giveUp ends a sandbox in which no command was executed, and returns why: err, or that
// the context has ended. Then nobody waits for what may hang.
func (s *clone) giveUp(err error) error {
	if cerr := s.ctx.Err(); cerr != nil {
		go s.close()
		return &Error{Op: "start", Err: cerr}
	}
	if unknown := s.pid == 0; unknown && errors.Is(err, errGone) {
		s.close()
		return s.unborn()
	}
	s.close()
	return err
}

// unborn is the error where the reports ended before anybody said the process id.
func (s *clone) unborn() error {
	s.unknown = true
	err := errGone
	if end := theLauncher.obituary(s.gen); end != "" {
		err = fmt.Errorf("%w: the launcher ended: %s", errGone, end)
	}
	return &Error{Op: "start", Err: err}
}

// count opens the counters of s, if they are wanted and its process is known.
func (c *Cmd) count(s *clone) {
	if c.opt.CountUnsent && s.counters == nil && s.pid > 0 {
		s.counters = sandbox.Count(s.pid)
		c.opt.Counters = s.counters
	}
}

// bound makes reports be read only as long as the context lasts, until release is called.
func (s *clone) bound() (release func() bool) {
	return context.AfterFunc(s.ctx, func() { _ = s.status.SetReadDeadline(time.Unix(1, 0)) })
}

// endSocket tells the clone that nothing more is to be expected.
func (s *clone) endSocket() {
	if s.sock != sys.None {
		_ = unix.Shutdown(int(s.sock), unix.SHUT_WR)
	}
}

// sender is the process id of the clone as the kernel has it from the one byte
// that every clone sends first; 0 if there is none. The launcher is quicker to say
// it, but may be killed before it does.
func (s *clone) sender() int {
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
func (s *clone) exit() (ws syscall.WaitStatus, ok bool) {
	defer func() { _ = s.status.Close() }()
	for {
		r, err := readRecord(s.status)
		if err != nil {
			return 0, false
		}
		if r.Kind == prog.RecordTimeout {
			s.timedOut = true
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

var errInherit = errors.New("descriptors can be inherited only from a program that is its own launcher, with its own standard descriptors")

var errCgroupInherit = errors.New("with Inherit there can be no Cgroup")

// readRecord reads one Record; the end of them is errGone.
func readRecord(f *os.File) (r prog.Record, err error) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&r)), prog.RecordSize)
	n, err := f.Read(b)
	if err == io.EOF || err == nil && n != len(b) {
		err = errGone
	}
	return r, err
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

// fewMounts is how many mounts fit into a Program as it is made.
const fewMounts = 8

// scratchFd is how far above the command's descriptors numbers are free: the
// set-up has fewer open at once.
const scratchFd = 64

// setup adds the second Program's operations: mounts, credentials, limits, and
// the command itself. status is the number of the status pipe.
func (c *Cmd) setup(b *prog.Builder, p *beginning, fds []int, status int, haveMounts bool) error {
	o := mountprog.Options{
		Classic:  c.opt.ClassicMounts || !features.Has(features.NewMountCalls),
		HostRoot: os.Geteuid() == 0,
		// Who joins one may have another root than the root of the mounts.
		UserNamespace: p.flags&unix.CLONE_NEWUSER != 0,
		ScratchFd:     status + scratchFd,
		FirstLayer:    3 + len(c.ExtraFiles),
		Layers:        len(c.Layers),
		Bubblewrap:    c.opt.Bubblewrap,
	}
	if o.Classic {
		if c.opt.Inherit {
			o.ScratchFd = freePair(status)
		}
		infos, err := mounts.ReadMountinfo()
		if err != nil {
			return &Error{Op: "mount", Path: "/proc/self/mountinfo", Err: err}
		}
		o.Infos, o.Resolve = infos, filepath.EvalSymlinks
	}
	err := c.emit(b, o, fds, status, haveMounts)
	if me, ok := errors.AsType[*mounts.Error](err); ok {
		return &Error{Op: me.Op, Path: me.Path, Err: me.Err}
	}
	return err
}

// freePair is a number that is no descriptor of this process, nor is the next one,
// with so many others below it that the set-up, which gets the lowest, does not come
// there; where the limit of descriptors does not allow that, the highest pair.
func freePair(status int) int {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	pair, free, before := status+scratchFd, 0, false
	for fd := 0; fd < int(min(limit.Cur, 1<<30)); fd++ {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		isFree := err != nil
		if isFree && before {
			if pair = fd - 1; free > scratchFd {
				break
			}
		}
		if before = isFree; isFree {
			free++
		}
	}
	return pair
}

// emit is setup without questions to the system, and without allocating where the
// Builder is a fixed one: see Instant.
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
	if n := len(c.Mounts); n > fewMounts {
		b.Grow(14*n, 256*n) // roughly what a bind takes
	}
	var sockets []prog.Slot
	if c.opt.Supervisor != nil {
		sockets = superviseNetwork(b, c.opt.Supervisor)
	}
	umask := b.Slot()
	b.Call(prog.SysUmask, prog.Int(0)).To(umask)
	procDir := c.prepareNested(b)
	if err := mountprog.Compile(b, c.Mounts, o); err != nil {
		return err
	}
	if c.Hostname != "" || c.opt.NoHostname {
		b.Step("hostname", c.Hostname)
		name := b.Text(c.Hostname)
		b.Call(prog.SysSethostname, name.Arg(), name.Len())
	}
	c.nest(b, procDir)
	if !b.Fixed() {
		if limit, ok := rlimit.NoFile(); ok {
			b.Step("limit", "open files")
			b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(unix.RLIMIT_NOFILE), b.Words(limit.Soft, limit.Hard).Arg(), prog.Null)
		}
	}
	for _, r := range c.Rlimits {
		b.Step("limit", itoa(int64(r.Resource)))
		b.Call(prog.SysPrlimit64, prog.Int(0), prog.Int(r.Resource), b.Words(r.Soft, r.Hard).Arg(), prog.Null)
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
	envv := c.chdir(b)
	if c.NewSession || !c.opt.SameSession && !terminal(fds) {
		b.Step("session", "")
		b.Call(prog.SysSetsid)
	}
	c.stepGate(b, status)
	if c.forks() {
		c.fork(b)
	}
	return c.execute(b, envv, umask, status, sockets)
}

// forks says that there is a process above the command.
func (c *Cmd) forks() bool {
	return !c.opt.AsPID1 && (c.Share&PID == 0 || c.opt.Reaper || len(c.opt.Hold) > 0 || len(c.opt.LockFiles) > 0)
}

// fork adds what makes the command's process; the rest is its own.
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
	// PID 1 is a copy of the process that cloned it: its memory is nobody's
	// business in here, from before the command's first instruction.
	if c.opt.Bubblewrap {
		// But its owner may enter its namespaces. So it must not be able to do more than
		// the command.
		if c.opt.Forget != nil {
			b.Call(prog.Wipe, prog.Int(uintptr(unsafe.Pointer(unsafe.SliceData(c.opt.Forget)))), prog.Int(len(c.opt.Forget)))
		}
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(1))
		if n = len(c.Seccomp); n > 0 {
			list := b.Zero(8 * n)
			for i, f := range c.Seccomp {
				b.Relocate(list, i, f.program(b).Arg())
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
	ask, end := c.times()
	b.Call(prog.Fork, prog.Int(how), filters, prog.Int(n), prog.Int(ask), prog.Int(end))
	for _, f := range c.opt.Hold {
		b.Call(prog.SysClose, prog.Int(f.Fd()))
	}
	if c.opt.Bubblewrap && !c.Background {
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	}
}

// chdir adds the change to the working directory, and returns the environment,
// which may say which it is.
func (c *Cmd) chdir(b *prog.Builder) prog.Ptr {
	if c.Dir != "" {
		b.Step("chdir", c.Dir)
		b.Call(prog.SysChdir, b.String(c.Dir))
	}
	if !c.opt.Bubblewrap {
		if c.Dir == "" {
			b.Step("chdir", "/")
			b.Call(prog.SysChdir, b.String(cwd())).Tolerate(syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP)
		}
		return b.Strings(c.Environ())
	}
	env := c.Environ()
	if c.Dir != "" {
		envv, _ := withPWD(b, env, c.Dir)
		return envv
	}
	envv, at := withPWD(b, env, "/")
	wd := c.opt.WorkingDir
	if wd == "" {
		wd, _ = getcwd()
	}
	b.Step("chdir", "/")
	var done [2]prog.Label
	for i, dir := range [...]string{wd, getenv(env, "HOME")} {
		if dir == "" {
			continue
		}
		there := b.Call(prog.SysChdir, b.String(dir)).TolerateAny().OnTolerated()
		b.Call(prog.Store, (envv + prog.Ptr(8*at)).Arg(), b.Concat("PWD=", dir))
		done[i] = b.Jump()
		b.Here(there)
	}
	b.Here(done[:]...)
	return envv
}

// withPWD adds an environment in which PWD is dir, and says where. As the C
// library has it, a variable that was set keeps its place.
func withPWD(b *prog.Builder, env []string, dir string) (envv prog.Ptr, at int) {
	envv, at = b.Zero(8*(len(env)+2)), -1
	for i, e := range env {
		if at < 0 && strings.HasPrefix(e, "PWD=") {
			at = i
			continue
		}
		b.Relocate(envv, i, b.String(e))
	}
	if at < 0 {
		at = len(env)
	}
	b.Relocate(envv, at, b.Concat("PWD=", dir))
	return envv, at
}

func getenv(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name); ok && v != "" && v[0] == '=' {
			return v[1:]
		}
	}
	return ""
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
	poll := b.Data([]byte{byte(status), byte(status >> 8), byte(status >> 16), byte(status >> 24), 0, 0, 0, 0})
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
	// Without capabilities this process could be looked into by others who have
	// none either; executing ends that.
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

// defaultPath is where commands are looked for if the environment has no PATH.
const (
	defaultPath    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	bubblewrapPath = "/bin:/usr/bin" // the C library's, see confstr(3)
)

// execute adds the command's execution, and before it what the command must not
// share with the set-up. status is the number of the status pipe.
func (c *Cmd) execute(b *prog.Builder, envv prog.Ptr, umask prog.Slot, status int, sockets []prog.Slot) error {
	if !b.Fixed() && c.holdsNUL() {
		return &Error{Op: "exec", Path: c.Path, Err: syscall.EINVAL}
	}
	b.Step("exec", c.Path)
	if c.Umask != nil {
		b.Call(prog.SysUmask, prog.Int(*c.Umask&0o777))
	} else {
		b.Call(prog.SysUmask, umask.Arg())
	}
	b.Call(prog.SysSigprocmask, prog.Int(unix.SIG_SETMASK), b.Words(c.signalMask()).Arg(), prog.Null, prog.Int(8))
	for n := range 64 {
		if c.opt.Ignore&(1<<n) != 0 {
			ignore := b.Words(1, 0, 0, 0) // struct sigaction: SIG_IGN
			b.Call(prog.SysSigaction, prog.Int(n+1), ignore.Arg(), prog.Null, prog.Int(8))
		}
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	argv, shell := b.Strings(args), prog.Null
	if c.opt.Bubblewrap {
		words := b.Zero(8 * (len(args) + 2))
		b.Relocate(words, 0, b.String("/bin/sh"))
		for i := 1; i < len(args); i++ {
			b.Relocate(words, i+1, b.String(args[i]))
		}
		shell = words.Arg()
	}
	if !c.forks() {
		// Nobody will be left to report that it was executed. So it says that it is
		// about to be, to be told from a process that somebody killed before.
		b.Call(prog.SysWrite, prog.Int(status), b.Words(prog.RecordStarted, 0).Arg(), prog.Int(prog.RecordSize)).Full()
	}
	if c.HideAbstract {
		hideAbstract(b)
	}
	if c.opt.Supervisor != nil {
		superviseCommand(b, c.opt.Supervisor, status-1, sockets) // the last of the command's descriptors
	}
	// Last, so that filters need not let the set-up pass, nor PID 1.
	for _, f := range c.Seccomp {
		f.install(b, c.opt.Bubblewrap)
	}
	b.Step("exec", c.Path)
	path := defaultPath
	if c.opt.Bubblewrap {
		path = bubblewrapPath
	}
	try := func(dir, separator string) {
		exact := prog.Int(0)
		if separator != "" && !c.opt.Bubblewrap {
			exact = prog.Int(1) // what cannot be looked for there is not there
		}
		b.Call(prog.Exec, b.Concat(dir, separator, c.Path), argv.Arg(), envv.Arg(), shell, exact).
			Tolerate(syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR, syscall.ENODEV, syscall.ETIMEDOUT, syscall.ELOOP, syscall.ENAMETOOLONG)
	}
	if strings.IndexByte(c.Path, '/') >= 0 || c.Path == "" {
		try("", "")
	} else {
		search(c.Environ(), path, try)
	}
	b.Call(prog.ExecFail)
	return nil
}

// hideAbstract adds a Landlock domain that restricts nothing else.
func hideAbstract(b *prog.Builder) {
	b.Step("landlock", AbstractSockets)
	rules := b.Slot()
	attr := b.Words(0, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET) // struct landlock_ruleset_attr
	b.Call(prog.SysLandlockCreate, attr.Arg(), prog.Int(24), prog.Int(0)).To(rules)
	b.Call(prog.SysLandlockRestrict, rules.Arg(), prog.Int(0))
	b.Close(rules)
}

// signalMask is the mask of blocked signals that the command inherits: the
// calling thread's.
func (c *Cmd) signalMask() uint64 {
	var set unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, nil, &set) != nil {
		return 0
	}
	if c.opt.Bubblewrap {
		set.Val[0] &^= 1 << (unix.SIGCHLD - 1)
	}
	return set.Val[0]
}

// holdsNUL reports whether a string would be cut off.
func (c *Cmd) holdsNUL() bool {
	for _, list := range [...][]string{{c.Path, c.Dir, c.Hostname}, c.Args, c.Environ()} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return true
			}
		}
	}
	return false
}

// search calls try with the directories in which execvp(3) looks.
func search(env []string, path string, try func(dir, separator string)) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for more := true; more; {
		var dir string
		if dir, path, more = strings.Cut(path, ":"); dir == "" {
			dir = "."
		}
		try(dir, "/")
	}
}

// start brings the sandbox up. It returns after the command was executed.
func start(c *Cmd, files []*os.File) (*clone, error) {
	p := c.beginning()
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
	if c.opt.Inherit {
		if !reexec.InProcess || len(fds) > 3 || fds[0] != 0 || fds[1] != 1 || fds[2] != 2 {
			return nil, &Error{Op: "start", Path: c.Path, Err: errInherit}
		}
		fds = nil
	}
	if c.Cgroup != nil && c.opt.Inherit {
		return nil, &Error{Op: "start", Path: c.Path, Err: errCgroupInherit}
	}
	for _, f := range c.Seccomp {
		if len(f) == 0 || len(f) > maxFilter {
			return nil, &Error{Op: "seccomp", Err: errFilterLength}
		}
	}
	if !reexec.InProcess {
		s, err := ready.take(c.context(), p)
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
	if !p.waits() && !p.joins() {
		return startHere(c, p, fds)
	}
	s, err := spawnFirst(c.context(), p, cloneHere)
	if err != nil {
		return nil, err
	}
	return c.complete(s, p, fds, cloneHere)
}

// complete gives a sandbox that has its namespaces the rest of its work.
func (c *Cmd) complete(s *clone, p *beginning, fds []int, by cloneFunc) (*clone, error) {
	second, err := c.secondProgram(s, p, fds)
	if err != nil {
		s.close()
		return nil, err
	}
	gen := theLauncher.gen.Load()
	for try := 0; ; try++ {
		sendErr := s.send(second, fds)
		s.endSocket()
		c.count(s)
		// Also where nothing could be sent: then the first Program says why.
		err := s.await(second, c)
		if err == nil {
			s.sock.Close()
			c.count(s)
			return s, nil
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
		// Somebody may have killed a sandbox that waited, or the launcher before it
		// cloned: once more, with a fresh one. Not where it was begun a moment ago and
		// has the work: what it read from the caller's descriptors is gone, and who
		// kills it while it waits for one (Block) does not want the command.
		if lost := s.waited && !p.inherit || s.unknown || sendErr != nil; !lost || try > 0 || !p.common() {
			if sendErr != nil {
				err = &Error{Op: "start", Path: c.Path, Err: sendErr}
			}
			return nil, err
		}
		theLauncher.drop(gen)
		if s, err = spawnFirst(c.context(), p, by); err != nil {
			return nil, err
		}
		if second, err = c.secondProgram(s, p, fds); err != nil {
			s.close()
			return nil, err
		}
	}
}

// secondProgram is the second Program, for these descriptors and the status pipe.
func (c *Cmd) secondProgram(s *clone, p *beginning, fds []int) (*prog.Program, error) {
	b := prog.New(prog.Native())
	b.SetNFds(len(fds) + 1)
	status := s.childStatus
	if !c.opt.Inherit {
		status = len(fds)
		b.Call(prog.Install, prog.Int(len(fds)))
	}
	if err := c.setup(b, p, fds, status, s.mounts); err != nil {
		return nil, err
	}
	return b.Program(), nil
}

// startHere runs both Programs, as one, in a clone of this process.
func startHere(c *Cmd, p *beginning, fds []int) (*clone, error) {
	r, w, err := statusPipe()
	if err != nil {
		return nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	defer w.Close()
	b := prog.New(prog.Native())
	b.SetNFds(len(fds) + 1)
	b.SetFlags(p.cloneFlags() | p.into())
	status := int(w)
	if c.opt.Inherit {
		b.Call(prog.SysClose, prog.Int(r.Fd()))
	} else {
		status = len(fds)
		b.Call(prog.Install, prog.Int(len(fds)))
	}
	p.namespaces(b)
	if err := c.setup(b, p, fds, status, p.mounts()); err != nil {
		_ = r.Close()
		return nil, err
	}
	program := b.Program()
	pid, errno := reexec.Spawn(program.Block(), append(p.withCgroup(fds), int(w)))
	if errno != 0 {
		_ = r.Close()
		return nil, &Error{Op: "clone", Path: names(p.flags), Err: errno}
	}
	w.Close()
	s := &clone{pid: pid, status: r, sock: sys.None, ctx: c.context()}
	c.count(s)
	if err := s.await(program, c); err != nil {
		return nil, err
	}
	return s, nil
}

// await reads reports until the command was executed, or something failed; then
// the sandbox is gone.
func (s *clone) await(second *prog.Program, c *Cmd) (err error) {
	if c.ctx != nil && c.ctx.Done() != nil {
		// A mount may hang, and nobody can be waited for then.
		stop := context.AfterFunc(c.ctx, func() { _ = s.status.SetReadDeadline(time.Unix(1, 0)) })
		defer func() {
			if !stop() && err == nil {
				_ = s.status.SetReadDeadline(time.Time{})
			}
		}()
	}
	executing, given := false, false
	for {
		r, err := readRecord(s.status)
		if errors.Is(err, errGone) && executing {
			if s.pid == 0 {
				s.close()
				return &Error{Op: "start", Path: c.Path, Err: err}
			}
			return nil // the status pipe was closed by execve
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !given {
			// The command may have begun, and what it did is not to be taken for nothing. Once
			// it is killed, all that will ever be reported comes soon.
			given = true
			s.kill()
			_ = s.status.SetReadDeadline(time.Now().Add(patience))
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = s.status.SetReadDeadline(time.Time{})
			go s.close()
			return &Error{Op: "start", Path: c.Path, Err: c.ctx.Err()}
		}
		if err != nil {
			unknown := s.pid == 0
			switch status := s.close(); {
			case given:
				err = c.ctx.Err()
			case unknown && errors.Is(err, errGone):
				return s.unborn()
			case errors.Is(err, errGone) && status.Signaled():
				err = &KilledError{status.Signal()}
			}
			return &Error{Op: "start", Path: c.Path, Err: err}
		}
		switch r.Kind {
		case prog.RecordPid:
			if s.pid != 0 {
				continue // nobody has to say it: where it can be written to, it is not believed
			}
			s.pid = int(r.Value)
			if r.Errno != 0 {
				s.pid = 0
				s.close()
				return &Error{Op: "clone", Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
			}
			if given {
				s.kill()
			}
		case prog.RecordStarted:
			if !c.forks() {
				executing = true // or about to
				continue
			}
			if err := s.awaitPid(); err != nil {
				return s.giveUp(err)
			}
			return nil
		case prog.RecordFail:
			if err := s.awaitPid(); err != nil {
				return s.giveUp(err)
			}
			s.close()
			return s.failure(r, second)
		case prog.RecordText:
			if s.text, err = readText(s.status, int(r.Value)); err != nil {
				s.close()
				return &Error{Op: "start", Path: c.Path, Err: err}
			}
		}
	}
}

// patience is how long a sandbox that is killed before it was ready may take to be gone: its
// set-up may hang in a mount.
const patience = time.Second

// kill kills the first process, if it is known.
func (s *clone) kill() {
	if s.pid > 0 {
		_ = unix.Kill(s.pid, unix.SIGKILL)
	}
}

// readText reads the text that follows a Record.
func readText(f *os.File, n int) (string, error) {
	b := make([]byte, min(n, unix.PathMax))
	_, err := io.ReadFull(f, b)
	return string(b), err
}

// awaitPid reads the process id, if it is not known yet: another process reports it,
// or the clone's first byte tells.
func (s *clone) awaitPid() error {
	if s.pid > 0 {
		return nil
	}
	defer func() { _ = s.status.SetReadDeadline(time.Time{}) }()
	gone := false
	for s.pid == 0 {
		_ = s.status.SetReadDeadline(time.Now().Add(launcherPatience))
		r, err := readRecord(s.status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid = s.sender(); s.pid != 0 {
				continue
			}
			if s.ctx.Err() != nil {
				return &Error{Op: "start", Err: s.ctx.Err()}
			}
			if gone {
				s.endSocket() // without which what it has cloned ends
			}
			// What it said before its end may have come after we looked: once more.
			gone = gone || theLauncher.gone(s.gen)
			continue
		}
		if err != nil {
			return &Error{Op: "start", Err: err}
		}
		if r.Kind == prog.RecordPid {
			if r.Errno != 0 {
				return &Error{Op: "clone", Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
			}
			s.pid = int(r.Value)
		}
	}
	return nil
}

// awaitJoined reads the process id of the process that a first Program goes on in
// after it joined namespaces, and waits for the ones before it.
func (s *clone) awaitJoined(twice bool) error {
	cloned := 0
	for {
		r, err := readRecord(s.status)
		switch {
		case err != nil:
			return &Error{Op: "start", Err: err}
		case r.Kind == prog.RecordFail:
			return s.failure(r, nil)
		case r.Kind == prog.RecordPid && r.Errno != 0:
			s.pid = 0
			return &Error{Op: "clone", Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
		case r.Kind == prog.RecordPid && r.Op == 0: // the launcher's
			s.pid = int(r.Value)
		case r.Kind == prog.RecordPid:
			// The one that says so has ended, or is about to.
			if cloned == 0 {
				if first := s.sender(); first != 0 {
					s.pid = first
				}
			}
			sys.Wait(s.pid)
			s.pid = int(r.Value)
			if cloned++; twice && cloned == 2 {
				return s.awaitLast()
			} else if !twice {
				return nil
			}
		}
	}
}

// awaitLast reads the process id of a clone whose number was said in another PID
// namespace.
func (s *clone) awaitLast() error {
	s.pid = 0
	for began := time.Now(); time.Since(began) < lastPatience && s.ctx.Err() == nil; {
		if s.pid = s.sender(); s.pid != 0 {
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(s.sock), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(launcherPatience.Milliseconds())); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			if s.pid = s.sender(); s.pid != 0 {
				return nil
			}
			break
		}
	}
	return &Error{Op: "start", Err: errGone}
}

// lastPatience is how long a clone may take to send its first byte.
const lastPatience = 10 * time.Second

// failure is a report as an error.
func (s *clone) failure(r prog.Record, second *prog.Program) error {
	p := second
	if r.Value&stage1 != 0 {
		p = s.first
	}
	i := int(r.Value &^ stage1)
	e := &Error{Op: "start", Program: int(r.Op), Text: s.text}
	errno, part := prog.SplitErrno(r.Errno)
	e.Err = errno
	if p != nil && i < len(p.Steps) {
		step := &p.Steps[i]
		e.Op, e.Path = step.Where()
		e.Mount, e.Part = int(step.Mount), Part(step.Part)
	}
	if part != 0 {
		e.Part = Part(part)
	}
	return e
}
