//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"strings"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/dropin"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// memory is all the memory that this code uses. The kernel provides its pages when they are used.
type memory struct {
	words   [maxWords]string
	environ [maxEnviron]string
	joined  [64 << 10]byte // environment variables that options set
	used    int
	env     bwrap.Env
	options bwrap.Room
	plan    [maxMounts]mounts.Mount
	program prog.Room
	dir     [4096]byte
	cmd     nsexec.Cmd
	known   sandbox.Known
}

const (
	maxWords   = 9002 // bubblewrap's limit, and this program's name
	maxEnviron = 8192
	maxMounts  = 3000 // maxWords words cannot ask for more
)

// newMemory asks the kernel for it. It is not a variable, because the runtime, if it
// starts after all, would scan that for pointers. Pages are small, because few are used.
func newMemory() *memory {
	const size = unsafe.Sizeof(memory{})
	at, _, e := syscall.RawSyscall6(syscall.SYS_MMAP, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if e != 0 {
		return nil
	}
	syscall.RawSyscall(syscall.SYS_MADVISE, at, size, syscall.MADV_NOHUGEPAGE)
	return *(**memory)(unsafe.Pointer(&at))
}

func (m *memory) free() {
	syscall.RawSyscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(m)), unsafe.Sizeof(*m), 0)
}

// run is called by the entry point, with the stack as the kernel made it: the
// number of arguments, the arguments, a null pointer, the environment, a null
// pointer. It returns if main has to do the work.
func run(stack unsafe.Pointer) {
	entered = true
	filtered := filtered()
	if !filtered { // else needSpace says so, after needLife
		needStack(stack)
	}
	if !secureexec.OnStack(stack) { // main refuses to run then
		if filtered {
			needCalls(stack, true)
		}
		try(stack)
	}
	hideSettings(unsafe.Add(stack, 8*(*(*int)(stack)+2)))
	if filtered {
		needLife(stack)
		needCalls(stack, false)
	}
	needSpace(stack)
	needThreads(stack)
	// The runtime installs handlers even for ignored signals. bubblewrap changes only
	// SIGCHLD.
	for n := uintptr(1); n <= 64; n++ {
		var old [4]uintptr // struct sigaction
		_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&old)), 8, 0, 0)
		if e == 0 && old[0] == 1 && n != uintptr(syscall.SIGCHLD) {
			ignored |= 1 << (n - 1)
		}
	}
	// And the runtime opens standard descriptors that are closed.
	for fd := range closed {
		_, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		closed[fd] = e != 0
	}
}

// try does the work of run. It returns if main has to do it.
func try(stack unsafe.Pointer) {
	argc := *(*int)(stack)
	argv := unsafe.Add(stack, 8)
	environ, n := unsafe.Add(argv, 8*(argc+1)), 0
	for *(*unsafe.Pointer)(unsafe.Add(environ, 8*n)) != nil {
		n++
	}
	if n > 0 {
		last := text(environ, n-1)
		environment[0] = uintptr(*(*unsafe.Pointer)(environ))
		environment[1] = uintptr(unsafe.Pointer(unsafe.StringData(last))) + uintptr(len(last)) - environment[0]
	}
	if argc < 2 || argc > maxWords || n >= maxEnviron {
		return
	}
	asBwrap := base(text(argv, 0)) == "bwrap"
	if first := text(argv, 1); !asBwrap && (first == "" || first[0] != '-') {
		return
	}
	who, ok := caller()
	if !ok {
		return
	}
	m := newMemory()
	if m == nil {
		return
	}
	for i := range argc {
		m.words[i] = text(argv, i)
	}
	for i := range n {
		m.environ[i] = text(environ, i)
	}
	sandbox.Of(&m.cmd).Forget = kernelEnviron()
	if m.prepare(m.words[1:argc], m.environ[:n:maxEnviron], who, asBwrap) {
		start(m, who)
	}
	m.free()
}

// text returns the i-th C string of a list.
func text(list unsafe.Pointer, i int) string {
	p := *(*unsafe.Pointer)(unsafe.Add(list, 8*i))
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return unsafe.String((*byte)(p), n)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// who says who the caller is.
type who struct {
	uid, gid uint32
	caps     uint64
}

// caller returns who the caller is. Not ok: this process has more rights than its
// caller.
func caller() (w who, ok bool) {
	uid, _, _ := syscall.RawSyscall(syscall.SYS_GETUID, 0, 0, 0)
	euid, _, _ := syscall.RawSyscall(syscall.SYS_GETEUID, 0, 0, 0)
	gid, _, _ := syscall.RawSyscall(syscall.SYS_GETGID, 0, 0, 0)
	egid, _, _ := syscall.RawSyscall(syscall.SYS_GETEGID, 0, 0, 0)
	header := [2]uint32{capVersion3}
	var data [6]uint32
	_, _, e := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	w = who{uint32(uid), uint32(gid), uint64(data[0]) | uint64(data[3])<<32}
	return w, e == 0 && uid == euid && gid == egid && (uid == 0 || w.caps == 0)
}

// prepare fills in m.cmd as the words say. environ is the caller's environment, with spare
// capacity.
func (m *memory) prepare(words, environ []string, w who, asBwrap bool) bool {
	m.env = bwrap.Env{UID: w.uid, GID: w.gid, Caps: w.caps, Extensions: !asBwrap, UserNamespaces: userNamespaces}
	cfg, ok := bwrap.ParseIn(&m.options, words, &m.env)
	if !ok || cfg.KillOnExit && !cfg.UnsharePID || cfg.Chdir.Set && cfg.Chdir.Value == "" {
		return false
	}
	cgroups := true
	if cfg.UnshareCgroup || cfg.UnshareCgroupTry {
		cgroups = exists("/proc/self/ns/cgroup\x00")
	}
	if cfg.UnshareCgroup && !cgroups {
		return false
	}
	c := &m.cmd
	dropin.Configure(c, cfg, w.uid == 0, cgroups)
	if cfg.Argv0.Set {
		c.Args[0] = cfg.Argv0.Value
	}
	if c.Env, ok = cfg.EnvironmentIn(environ, m.join); !ok {
		return false
	}
	return m.mounts(cfg, asBwrap)
}

// mounts fills in the Plan.
func (m *memory) mounts(cfg *bwrap.Config, asBwrap bool) bool {
	n := 0
	for i := range cfg.Ops {
		op := &cfg.Ops[i]
		if op.Kind == bwrap.OpHostname {
			m.cmd.Hostname, sandbox.Of(&m.cmd).NoHostname = op.Dest, op.Dest == ""
			continue
		}
		if n == maxMounts || op.Kind == bwrap.OpDev && terminal(1) {
			return false
		}
		dropin.Mount(&m.plan[n], op, cfg.UnsharePID, asBwrap)
		n++
	}
	m.cmd.Mounts = m.plan[:n]
	return true
}

// join returns name=value.
func (m *memory) join(name, value string) (string, bool) {
	n := len(name) + 1 + len(value)
	if n > len(m.joined)-m.used {
		return "", false
	}
	b := m.joined[m.used : m.used+n]
	m.used += n
	copy(b, name)
	b[len(name)] = '='
	copy(b[len(name)+1:], value)
	return unsafe.String(unsafe.SliceData(b), n), true
}

// start starts m.cmd, and does not return if that succeeds.
func start(m *memory, w who) {
	n, _, e := syscall.RawSyscall(syscall.SYS_GETCWD, uintptr(unsafe.Pointer(&m.dir)), uintptr(len(m.dir)), 0)
	if e != 0 || n < 2 || m.dir[0] != '/' {
		return
	}
	var pipe [2]int32
	if _, _, e := syscall.RawSyscall(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&pipe)), syscall.O_CLOEXEC, 0); e != 0 {
		return
	}
	// Closed standard descriptors stay closed.
	for i := range pipe {
		if pipe[i] < 3 {
			fd, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(pipe[i]), syscall.F_DUPFD_CLOEXEC, 3)
			if e != 0 {
				return
			}
			closeFd(pipe[i])
			pipe[i] = int32(fd)
		}
	}
	monitor(m, w, pipe, int(n)-1)
}

// monitor clones, and waits for the command's end. n is the length of the working directory's path. It returns if no
// command was executed: main does the work then, or, if notExecuted is set, only reports that.
func monitor(m *memory, w who, pipe [2]int32, n int) {
	cfg := m.options.Config()
	sandbox.Of(&m.cmd).WorkingDir = unsafe.String(&m.dir[0], n)
	m.known = sandbox.Known{
		Status: int(pipe[1]), Other: int(pipe[0]), HostRoot: w.uid == 0,
		UID: sandbox.ID{Inside: cfg.UID.Value, Outside: w.uid},
		GID: sandbox.ID{Inside: cfg.GID.Value, Outside: w.gid},
	}
	begun, _, e := syscall.RawSyscall6(syscall.SYS_MMAP, 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_ANON, ^uintptr(0), 0)
	if e == 0 {
		m.known.Begun, m.known.PageSize = begun, pageSize
	}
	block := sandbox.Compile(&m.cmd, &m.program, &m.known)
	if block == nil || e != 0 {
		closeFd(pipe[0])
		closeFd(pipe[1])
		return
	}
	// If the caller ignores SIGCHLD, this process has inherited that.
	var handler [4]uintptr // struct sigaction: SIG_DFL
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
	all, old := ^uint64(0), uint64(0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, errno := reexec.SpawnFirst(block, pipe[1])
	if errno == 0 && cfg.DieWithParent {
		syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	closeFd(pipe[1])
	if errno != 0 {
		closeFd(pipe[0])
		return
	}
	watch(pipe[0], w, pid, begun, cfg.UnsharePID && !cfg.AsPID1)
}

// watch waits for the command's end, and exits as the command did. It returns if no command was executed. What comes
// from the pipe cannot decide that: a command that may look into PID 1 can write to the pipe, before PID 1 does, too.
// The page at begun decides it. If there is a PID 1, forks is set, and it reports when the command runs and how it
// ends.
func watch(status int32, w who, pid int, begun uintptr, forks bool) {
	runs, failed, errno := false, false, uint32(0)
	for {
		var r prog.Record
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(status), uintptr(unsafe.Pointer(&r)), prog.RecordSize)
		switch {
		case e == syscall.EINTR:
		case n == prog.RecordSize && r.Kind == prog.RecordStarted:
			if forks && !runs {
				giveUp(status, w)
				runs = true
			}
		case n == prog.RecordSize && r.Kind == prog.RecordExit && forks && isBegun(begun):
			exit(exitCode(r.Value))
		case n == prog.RecordSize && r.Kind == prog.RecordFail && !failed:
			failed, errno = true, r.Errno
		case n == prog.RecordSize:
			if r.Kind == prog.RecordText {
				skip(status, r.Value)
			}
		default:
			// Without a PID 1: the command was executed. With one: it was killed. Or something failed, and
			// main will report what. The pipe is closed before the wait, because more may be written than
			// fits into it.
			mayRun := isBegun(begun)
			if mayRun {
				giveUp(status, w)
			}
			closeFd(status)
			ws := wait(pid)
			switch {
			case !failed, mayRun && ws != 125<<8: // a set-up that fails ends with 125
				exit(exitCode(ws))
			case mayRun:
				notExecuted, _ = prog.SplitErrno(errno)
			}
			return
		}
	}
}

// isBegun reports whether the clone was about to execute the command, or has.
func isBegun(page uintptr) bool { return **(**uint64)(unsafe.Pointer(&page)) != 0 }

// skip reads n bytes, but not more than a path can have.
func skip(fd int32, n uint32) {
	var b [256]byte
	for n = min(n, 4096); n > 0; {
		got, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b)), uintptr(min(n, uint32(len(b)))))
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || got == 0 {
			return
		}
		n -= uint32(got)
	}
}

// giveUp drops what this process does not need for waiting: privileges, and
// descriptors. As long as it has these, their other ends get no end of file.
func giveUp(status int32, w who) {
	syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
	header, none := [2]uint32{capVersion3}, [6]uint32{}
	syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	if w.uid == 0 {
		// A process of root in the sandbox, without capabilities too, could otherwise trace
		// it.
		syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
	}
	if status > 3 {
		reexec.CloseRange(3, uintptr(status-1))
	}
	reexec.CloseRange(uintptr(status+1), 0xffffffff)
}

// wait waits for a process and returns its wait status.
func wait(pid int) (ws uint32) {
	for {
		_, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&ws)), 0, 0, 0, 0)
		if e != syscall.EINTR {
			return ws
		}
	}
}

// exitCode returns the exit status that shells use for a wait status.
func exitCode(ws uint32) uintptr {
	if ws&0x7f != 0 {
		return 128 + uintptr(ws&0x7f)
	}
	return uintptr(ws>>8) & 0xff
}

//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}

//go:nosplit
//go:norace
func closeFd(fd int32) { syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

const (
	pageSize        = 64 << 10   // the largest that a kernel has
	sigSetmask      = 2          // SIG_SETMASK
	capVersion3     = 0x20080522 // _LINUX_CAPABILITY_VERSION_3
	prSetNoNewPrivs = 38
)

// terminal reports whether a descriptor is one.
func terminal(fd uintptr) bool {
	var mode [128]byte // struct termios
	_, _, e := syscall.RawSyscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&mode)))
	return e == 0
}

// userNamespaces reports whether this system has user namespaces.
func userNamespaces() bool {
	if !exists("/proc/self/ns/user\x00") {
		return false
	}
	var b [2]byte
	fd, _, e := open("/proc/sys/user/max_user_namespaces\x00")
	if e != 0 {
		return true
	}
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b)), 2)
	closeFd(int32(fd))
	return e != 0 || n != 2 || b[0] != '0' || b[1] != '\n'
}

// atFdcwd is AT_FDCWD.
const atFdcwd = ^uintptr(99)

// exists and open take names that end with a zero byte.
func exists(name string) bool {
	_, _, e := syscall.RawSyscall(syscall.SYS_FACCESSAT, atFdcwd, uintptr(unsafe.Pointer(unsafe.StringData(name))), 0)
	return e == 0
}

func open(name string) (fd, unused uintptr, e syscall.Errno) {
	return syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(unsafe.Pointer(unsafe.StringData(name))), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
}
