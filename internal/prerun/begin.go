//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/secureexec"
)

// A sandbox that is begun before the runtime starts. Starting the runtime takes about as long as making namespaces, and
// neither depends on the other. So when run has returned, begin looks at the arguments. If they ask for a sandbox, it
// clones right away: the clone makes the namespaces and waits for the rest of its work, while this process goes on to
// the runtime's own entry point and to main. Package nsexec takes the clone if it is the one that is needed; otherwise
// its socket is closed, and it ends by itself. If something goes wrong here, there is no clone, and main reports the
// error. The clone is cheap to make, and small as PID 1, because this process has hardly any memory yet.

// The rules of package reexec's child apply to all of this file, and more, because there
// is no runtime yet. Nothing is allocated, no global is of a pointer type,
// every function is nosplit, and the stack is the one that the kernel made.

// started describes the clone, for take. Pid 0: there is none.
var started sandbox.Clone

func init() { sandbox.Begun = take }

// Constants that package syscall does not have.
const (
	keyctlJoinSession = 1
	prCapbsetDrop     = 24
	prSetPdeathsig    = 1
	siocsifflags      = 0x8914
	iffUp             = 0x1
	lastCapAtMost     = 63
	procMagic         = 0x9fa0
	highFd            = 200
)

// begin is called by the entry point, with the stack as the kernel made it: the
// number of arguments, the arguments, a null pointer, the environment. In the clone it
// returns true, and the entry point then calls child and rest.
//
//go:nosplit
//go:norace
func begin(stack unsafe.Pointer) (clone bool) {
	argc := *(*int)(stack)
	argv := unsafe.Add(stack, 8)
	flags := uintptr(0)
	if argc >= 3 && !secureexec.OnStack(stack) {
		flags = wanted(argc, argv)
	}
	if flags == 0 {
		return false
	}
	started.Inherit = !equal(at(argv, 1), "run")
	uid, _, _ := syscall.RawSyscall(syscall.SYS_GETEUID, 0, 0, 0)
	gid, _, _ := syscall.RawSyscall(syscall.SYS_GETEGID, 0, 0, 0)
	if uid == 0 && started.Inherit {
		return false // root may need other namespaces
	}
	var sock, status [2]int32
	if _, _, e := syscall.RawSyscall6(syscall.SYS_SOCKETPAIR, syscall.AF_UNIX,
		syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&sock)), 0, 0); e != 0 {
		return false
	}
	_, _, e := syscall.RawSyscall(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&status)), syscall.O_CLOEXEC, 0)
	if e == 0 {
		if cloneFor(flags, uid, gid, &sock, &status) {
			return true
		}
		closeFd(status[1])
	}
	closeFd(sock[1])
	if started.Pid == 0 {
		closeFd(sock[0])
		if e == 0 {
			closeFd(status[0])
		}
	}
	return false
}

// cloneFor clones. Our ends of socket and pipe get high numbers, because options may name low ones.
//
//go:nosplit
//go:norace
func cloneFor(flags, uid, gid uintptr, sock, status *[2]int32) (clone bool) {
	if sock[1] < 3 || status[1] < 3 {
		return false // if standard descriptors are closed, main has to deal with that
	}
	s, _, e1 := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(sock[0]), syscall.F_DUPFD_CLOEXEC, highFd)
	p, _, e2 := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(status[0]), syscall.F_DUPFD_CLOEXEC, highFd)
	if e1 != 0 || e2 != 0 {
		if e1 == 0 {
			closeFd(int32(s))
		}
		return false
	}
	closeFd(sock[0])
	closeFd(status[0])
	sock[0], status[0] = int32(s), int32(p)
	share()
	all := ^uint64(0)
	var old uint64
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, flags&(syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e == 0 {
		started.Pid, started.Sock, started.Status = int(pid), int(s), int(p)
		started.UID, started.GID, started.Flags = int(uid), int(gid), flags
		if uid == 0 && !started.Inherit { // what a command of root's may have
			started.Bounding = sandbox.RootsCapabilities
		}
		started.ChildStatus = int(status[1])
		if pid == 0 {
			started.Sock, started.Status = int(sock[1]), int(status[1])
			if started.Inherit {
				closeFd(sock[0])
				closeFd(status[0])
			}
			return true
		}
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	if e == 0 {
		elsewhere(pid)
	}
	return false
}

// attempts is the address of a word that the clone sets when it has made the calls of probes (reexec.AttemptProbed),
// which a seccomp filter may answer by ending it. Zero: there is no filter.
var attempts uintptr

// share makes that word, if there is a filter.
//
//go:nosplit
//go:norace
func share() {
	if mode, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_SECCOMP, 0, 0); mode == 0 && e == 0 {
		return
	}
	at, _, e := syscall.RawSyscall6(syscall.SYS_MMAP, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_ANON, ^uintptr(0), 0)
	if e == 0 {
		attempts = at
		reexec.Attempting(at)
	}
}

// maxCPUs is the number of processors that elsewhere supports.
const maxCPUs = 1024

// mask is used by elsewhere. It is too large for the stack.
var mask [maxCPUs / 64]uint64

// elsewhere moves the clone, which has not run yet, to another processor. The kernel
// often queues a new process on its parent's processor. This process runs for longer
// than a time slice, so the two would not run at the same time. In the end the clone
// may run on the same processors as before. A seccomp filter could end this process for
// that, as those of systemd's units with ~@resources do.
//
//go:nosplit
//go:norace
func elsewhere(pid uintptr) {
	var cpu uint32
	at := uintptr(unsafe.Pointer(&mask))
	if attempts != 0 {
		return
	}
	n, _, e := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), at)
	if e != 0 {
		return
	}
	if _, _, e := syscall.RawSyscall(sysGetcpu, uintptr(unsafe.Pointer(&cpu)), 0, 0); e != 0 || cpu >= maxCPUs {
		return
	}
	bit := uint64(1) << (cpu & 63)
	mask[(cpu>>6)%(maxCPUs/64)] &^= bit
	others := uint64(0)
	for _, m := range mask {
		others |= m
	}
	if others == 0 {
		return
	}
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, pid, n, at)
	mask[(cpu>>6)%(maxCPUs/64)] |= bit
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, pid, n, at)
}

// child makes the namespaces, as package nsexec's first Program does. If that fails, it ends
// without a message.
//
//go:nosplit
//go:norace
func child() {
	// If the caller ignores SIGCHLD, PID 1 would inherit that, and not learn of the
	// command's end.
	var handler [4]uintptr // struct sigaction: SIG_DFL
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGKILL), 0)
	if attempts != 0 {
		reexec.AttemptProbed(attempts)
	}
	uid, gid := uintptr(started.UID), uintptr(started.GID)
	if !started.Inherit {
		// 0 is the socket, 1 the status pipe. All other descriptors are closed.
		dup(uintptr(started.Sock), 0)
		dup(uintptr(started.Status), 1)
		reexec.CloseRange(2, 0xffffffff)
		started.Sock, started.Status = 0, 1
	}
	if uid != 0 { // root maps more ids: package nsexec does it, before it sends the rest of the work
		var buf [32]byte
		write(&uidMap, &buf, mapLine(&buf, uid))
		buf[0], buf[1], buf[2], buf[3] = 'd', 'e', 'n', 'y'
		write(&setgroups, &buf, 4)
		write(&gidMap, &buf, mapLine(&buf, gid))
	}
	// This copies the host's mounts. The command does not see what is mounted in the
	// milliseconds after that.
	own := started.Flags&^(syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID) | syscall.CLONE_NEWNS
	if _, _, e := syscall.RawSyscall(syscall.SYS_UNSHARE, own, 0, 0); e != 0 {
		exit(125)
	}
	if !started.Inherit {
		syscall.RawSyscall(syscall.SYS_KEYCTL, keyctlJoinSession, 0, 0)
	}
	if started.Flags&syscall.CLONE_NEWNET != 0 {
		loopback()
	}
	for n := uintptr(0); n <= lastCapAtMost; n++ {
		if started.Bounding>>n&1 != 0 {
			continue
		}
		if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prCapbsetDrop, n, 0); e == syscall.EINVAL {
			break // there are no more capabilities
		} else if e != 0 {
			exit(125)
		}
	}
}

// rest receives the second Program, and runs it.
//
//go:nosplit
//go:norace
func rest() { reexec.Receive(uintptr(started.Sock), uintptr(started.Status)) }

//go:nosplit
//go:norace
func dup(from, to uintptr) {
	if _, _, e := syscall.RawSyscall(syscall.SYS_DUP3, from, to, syscall.O_CLOEXEC); e != 0 {
		exit(125)
	}
}

// Names of files, which end with a zero byte.
var (
	uidMap    = [24]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'u', 'i', 'd', '_', 'm', 'a', 'p'}
	gidMap    = [24]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'g', 'i', 'd', '_', 'm', 'a', 'p'}
	setgroups = [24]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 's', 'e', 't', 'g', 'r', 'o', 'u', 'p', 's'}
)

//go:nosplit
//go:norace
func write(name *[24]byte, data *[32]byte, n uintptr) {
	const atFdcwd = ^uintptr(99)
	fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(unsafe.Pointer(name)), syscall.O_WRONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		exit(125)
	}
	var st [15]uint64 // struct statfs
	if _, _, e := syscall.RawSyscall(syscall.SYS_FSTATFS, fd, uintptr(unsafe.Pointer(&st)), 0); e != 0 || st[0] != procMagic {
		exit(125) // main refuses it too, with a message
	}
	if r, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(data)), n); e != 0 || r != n {
		exit(125)
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
}

// mapLine writes "id id 1\n" and returns its length.
//
//go:nosplit
//go:norace
func mapLine(buf *[32]byte, id uintptr) uintptr {
	var digits [10]byte
	n := uintptr(0)
	for v := id; n == 0 || v > 0; v /= 10 {
		digits[n%10] = '0' + byte(v%10)
		n++
	}
	at := uintptr(0)
	for range 2 {
		for i := uintptr(0); i < n; i++ {
			buf[at] = digits[n-1-i]
			at++
		}
		buf[at] = ' '
		at++
	}
	buf[at], buf[at+1] = '1', '\n'
	return at + 2
}

//go:nosplit
//go:norace
func loopback() {
	var ifreq [40]byte
	ifreq[0], ifreq[1], ifreq[16] = 'l', 'o', iffUp
	fd, _, e := syscall.RawSyscall(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if e != 0 {
		exit(125)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_IOCTL, fd, siocsifflags, uintptr(unsafe.Pointer(&ifreq))); e != 0 {
		exit(125)
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
}

// take is sandbox.Begun.
func take() (c sandbox.Clone, ok bool) {
	c = started
	started.Pid = 0
	return c, c.Pid != 0
}
