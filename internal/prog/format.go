//go:build linux && !nsrun_image

package prog

import (
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"syscall"
)

// Format writes p for people, and for golden tests:
//
//	bind /home/me/src
//	  12  open_tree(AT_FDCWD, "/home/me/src", OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_RECURSIVE) = $3
//	  13  openat2($1, "src", {O_PATH|O_CLOEXEC, RESOLVE_IN_ROOT}, 24) = $4 → 16 or ENOENT
//	  14  mkdirat($1, "src", 0755) or EEXIST
//
// Operations stand under the step they belong to, with their numbers. $n is a slot, @n a place in the data that is only
// written at run time. "→ n" says which operation comes next, "or E" that this error is fine, "= 5" that any other
// result is an error. Of the environment only names are shown: this text is pasted into reports.
func (p *Program) Format(w io.Writer) error {
	var b []byte
	step := -1
	for i := range p.ops {
		o := &p.ops[i]
		if int(o.Step) != step {
			s, last := p.Steps[o.Step], Step{}
			if step >= 0 {
				last = p.Steps[step]
			}
			if step = int(o.Step); s.Op != last.Op || s.path() != last.path() || s.Mount != last.Mount {
				b = append(b, s.Op...)
				if path := s.path(); path != "" {
					b = append(append(b, ' '), plain(path)...)
				}
				b = append(b, '\n')
			}
		}
		n := strconv.Itoa(i)
		b = append(b, "     "[:max(1, 5-len(n))]...)
		b = append(append(b, n...), ' ', ' ')
		b = append(p.operation(b, i), '\n')
	}
	_, err := w.Write(b)
	return err
}

// plain is s as it is, or quoted where that would not be seen for what it is.
func plain(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

// call finds which system call o is.
func (p *Program) call(o *Op) Sys {
	for s := range sysTable {
		if sysTable[s].nr[p.Arch] == o.Nr {
			return Sys(s)
		}
	}
	return numSys
}

func (p *Program) operation(b []byte, i int) []byte {
	o := &p.ops[i]
	next := func(skip uint16) {
		if skip != 0 {
			b = append(b, " → "...)
			b = strconv.AppendInt(b, int64(i)+1+int64(skip), 10)
		}
	}
	s := p.call(o)
	switch s {
	case Branch:
		b = append(b, "if "...)
		b = p.arg(b, s, o, 0, 'p')
		b = append(strconv.AppendUint(append(b, " & 0x"...), o.Args[1], 16), " == 0x"...)
		b = strconv.AppendUint(b, o.Args[2], 16)
	case Jump:
		b = append(b, "go on"...)
	case Fail:
		b = append(append(b, "fail with "...), errnoName(syscall.Errno(o.Args[0]))...)
	case ExecFail:
		b = append(b, "fail as execve did"...)
	default:
		b = p.signature(b, s, o)
	}
	if o.Kind&FlagFull != 0 {
		b = append(b, " = "...)
		b = p.arg(b, s, o, 2, 'd')
	}
	if o.Out != 0 {
		b = strconv.AppendUint(append(b, " = $"...), uint64(o.Out-1), 10)
	}
	next(o.OK)
	if o.Tol == anyError {
		b = append(b, " or any error"...)
		next(o.Err)
	} else if tol := tolerated(o); len(tol) > 0 {
		b = append(b, " or "...)
		for j, e := range tol {
			if j > 0 {
				b = append(b, '|')
			}
			b = append(b, errnoName(e)...)
		}
		next(o.Err)
	}
	return b
}

func (p *Program) signature(b []byte, s Sys, o *Op) []byte {
	sig := "xxxxxx"
	if s < numSys {
		sig = sysTable[s].sig
		b = append(b, sysTable[s].name...)
	} else {
		b = strconv.AppendUint(append(b, "call "...), uint64(o.Nr), 10)
	}
	if s == SysPrctl && o.Args[0] != prCapAmbient {
		sig = sig[:2] // how many there are depends on the first
	}
	if s == Exec && o.Kind>>6&3 == KindImm {
		sig = sig[:3] // no shell for what has no known format
	}
	b = append(b, '(')
	for a := range len(sig) {
		if a > 0 {
			b = append(b, ", "...)
		}
		b = p.arg(b, s, o, a, sig[a])
	}
	return append(b, ')')
}

func tolerated(o *Op) (list []syscall.Errno) {
	for e := range syscall.Errno(128) {
		if o.Tol[e>>6]&(1<<(e&63)) != 0 {
			list = append(list, e)
		}
	}
	return list
}

// String is the call's name as in its manual page.
func (s Sys) String() string {
	if s < numSys {
		return sysTable[s].name
	}
	return "sys" + strconv.Itoa(int(s))
}

// maxText is how much of a text or of a list is shown.
const maxText = 64

// arg appends argument n of o as the signature's letter says:
//
//	f  descriptor            d  number            s  string
//	o  flags of open         m  mode, octal       h  struct open_how
//	x  flags, by call        e  constant, by call a  struct mount_attr
//	p  place in the data     b  bytes, as many as the next argument says
//	v  list of strings       E  the environment   k  capability sets
//	l  struct rlimit64       n  struct sock_fprog q  set of signals
//	r  struct landlock_path_beneath_attr
func (p *Program) arg(b []byte, s Sys, o *Op, n int, letter byte) []byte {
	v := o.Args[n]
	switch o.Kind >> (2 * n) & 3 {
	case KindSlot:
		return strconv.AppendUint(append(b, '$'), v, 10)
	case KindPtr:
		return p.pointer(b, o, n, letter)
	}
	switch letter {
	case 'f':
		if int64(v) == -100 {
			return append(b, "AT_FDCWD"...)
		}
	case 'o':
		return openFlag(b, v, p.Arch)
	case 'm':
		return fileMode(b, v)
	case 'x':
		return flags(b, v, flagsOf(s, n))
	case 'e':
		for _, c := range constantsOf(s, o, n) {
			if c.bits == v {
				return append(b, c.name...)
			}
		}
	case 'd':
	default:
		if v == 0 {
			return append(b, "NULL"...)
		}
	}
	return strconv.AppendInt(b, int64(v), 10)
}

// pointer appends what an argument points to.
func (p *Program) pointer(b []byte, o *Op, n int, letter byte) []byte {
	at := uint32(o.Args[n])
	switch letter {
	case 's':
		return strconv.AppendQuote(b, p.text(at))
	case 'b':
		size := min(int(o.Args[n+1]), len(p.data)-int(at))
		if size > maxText {
			return append(strconv.AppendQuote(b, string(p.data[at:at+maxText])), "…"...)
		}
		return strconv.AppendQuote(b, string(p.data[at:int(at)+size]))
	case 'h':
		b = openFlag(append(b, '{'), p.word(at, 0), p.Arch)
		if mode := p.word(at, 1); mode != 0 {
			b = fileMode(append(b, ", "...), mode)
		}
		return append(flags(append(b, ", "...), p.word(at, 2), resolveFlags[:]), '}')
	case 'a':
		b = flags(append(b, '{'), p.word(at, 0), mountAttrs[:])
		if clr := p.word(at, 1); clr != 0 {
			b = flags(append(b, ", without "...), clr, mountAttrs[:])
		}
		return append(flags(append(b, ", "...), p.word(at, 2), mountFlags[:]), '}')
	case 'r':
		return append(flags(append(b, '{'), p.word(at, 0), landlockAccess[:]), '}')
	case 'v':
		return p.list(b, at, func(s string) string { return strconv.Quote(s) })
	case 'E':
		return p.list(b, at, func(s string) string {
			for i := range len(s) {
				if s[i] == '=' {
					return plain(s[:i])
				}
			}
			return "?"
		})
	case 'k':
		half := func(i uint32) uint64 { return uint64(binary.NativeEndian.Uint32(p.data[at+4*i:])) }
		for i, name := range [...]string{"{effective ", ", permitted ", ", inheritable "} {
			b = append(append(b, name...), "0x"...)
			b = strconv.AppendUint(b, half(uint32(i))|half(uint32(i)+3)<<32, 16)
		}
		return append(b, '}')
	case 'l':
		b = strconv.AppendUint(append(b, '{'), p.word(at, 0), 10)
		return append(strconv.AppendUint(append(b, ", "...), p.word(at, 1), 10), '}')
	case 'n':
		return append(strconv.AppendUint(append(b, '{'), p.word(at, 0), 10), " instructions}"...)
	case 'q':
		return append(strconv.AppendUint(append(b, "[0x"...), p.word(at, 0), 16), ']')
	}
	return strconv.AppendUint(append(b, '@'), uint64(at), 10)
}

func (p *Program) word(at uint32, i uint32) uint64 {
	return binary.NativeEndian.Uint64(p.data[at+8*i:])
}

func (p *Program) text(at uint32) string {
	end := slices.Index(p.data[at:], 0)
	if end < 0 {
		return string(p.data[at:])
	}
	return string(p.data[at : int(at)+end])
}

// list appends an array of pointers to strings.
func (p *Program) list(b []byte, at uint32, show func(string) string) []byte {
	b = append(b, '[')
	for i := uint32(0); slices.Contains(p.rel, at+8*i); i++ {
		if i > 0 {
			b = append(b, ", "...)
		}
		if i == maxText {
			return append(b, "…]"...)
		}
		b = append(b, show(p.text(uint32(p.word(at, i))))...)
	}
	return append(b, ']')
}

func openFlag(b []byte, v uint64, a Arch) []byte {
	start := len(b)
	for _, f := range openFlags {
		if bits := uint64(f.bits[a]); v&bits != 0 {
			b = append(append(b, f.name...), '|')
			v &^= bits
		}
	}
	return endFlags(b, start, v, "O_RDONLY")
}

func flags(b []byte, v uint64, names []constant) []byte {
	start := len(b)
	for _, f := range names {
		if v&f.bits != 0 {
			b = append(append(b, f.name...), '|')
			v &^= f.bits
		}
	}
	return endFlags(b, start, v, "0")
}

// endFlags ends a list of flags with what of the value was not named.
func endFlags(b []byte, start int, rest uint64, none string) []byte {
	switch {
	case rest != 0:
		return strconv.AppendUint(append(b, "0x"...), rest, 16)
	case len(b) == start:
		return append(b, none...)
	}
	return b[:len(b)-1]
}

func fileMode(b []byte, v uint64) []byte {
	if v&0o170000 == 0o100000 {
		b = append(b, "S_IFREG|"...)
		v &^= 0o170000
	}
	return strconv.AppendUint(append(b, '0'), v, 8)
}

// constant is a number with a name: a flag, or one of several choices.
type constant struct {
	bits uint64
	name string
}

const prCapAmbient = 47

// Numbers from the headers of linux/: mount.h, openat2.h, fcntl.h, stat.h, sched.h, prctl.h, keyctl.h, seccomp.h, and
// of asm-generic/: fcntl.h, signal.h, resource.h, socket.h. They are the same on both architectures.
var (
	landlockAccess = [...]constant{
		{1 << 0, "EXECUTE"}, {1 << 1, "WRITE_FILE"}, {1 << 2, "READ_FILE"}, {1 << 3, "READ_DIR"}, {1 << 4, "REMOVE_DIR"},
		{1 << 5, "REMOVE_FILE"}, {1 << 6, "MAKE_CHAR"}, {1 << 7, "MAKE_DIR"}, {1 << 8, "MAKE_REG"}, {1 << 9, "MAKE_SOCK"},
		{1 << 10, "MAKE_FIFO"}, {1 << 11, "MAKE_BLOCK"}, {1 << 12, "MAKE_SYM"}, {1 << 13, "REFER"}, {1 << 14, "TRUNCATE"},
		{1 << 15, "IOCTL_DEV"},
	}
	atFlags = [...]constant{
		{0x1, "OPEN_TREE_CLONE"}, {0x80000, "OPEN_TREE_CLOEXEC"}, {0x8000, "AT_RECURSIVE"},
		{0x1000, "AT_EMPTY_PATH"}, {0x100, "AT_SYMLINK_NOFOLLOW"},
	}
	moveFlags = [...]constant{
		{0x1, "MOVE_MOUNT_F_SYMLINKS"}, {0x4, "MOVE_MOUNT_F_EMPTY_PATH"},
		{0x10, "MOVE_MOUNT_T_SYMLINKS"}, {0x40, "MOVE_MOUNT_T_EMPTY_PATH"}, {0x200, "MOVE_MOUNT_BENEATH"},
	}
	mountAttrs = [...]constant{
		{0x1, "MOUNT_ATTR_RDONLY"}, {0x2, "MOUNT_ATTR_NOSUID"}, {0x4, "MOUNT_ATTR_NODEV"},
		{0x8, "MOUNT_ATTR_NOEXEC"}, {0x200000, "MOUNT_ATTR_NOSYMFOLLOW"},
	}
	mountFlags = [...]constant{
		{0x20, "MS_REMOUNT"}, {0x1000, "MS_BIND"}, {0x4000, "MS_REC"}, {0x40000, "MS_PRIVATE"},
		{0x80000, "MS_SLAVE"}, {0x100000, "MS_SHARED"}, {0x1, "MS_RDONLY"}, {0x2, "MS_NOSUID"},
		{0x4, "MS_NODEV"}, {0x8, "MS_NOEXEC"}, {0x100, "MS_NOSYMFOLLOW"}, {0x400, "MS_NOATIME"},
		{0x800, "MS_NODIRATIME"}, {0x200000, "MS_RELATIME"},
	}
	resolveFlags = [...]constant{
		{0x10, "RESOLVE_IN_ROOT"}, {0x8, "RESOLVE_BENEATH"}, {0x1, "RESOLVE_NO_XDEV"},
		{0x2, "RESOLVE_NO_MAGICLINKS"}, {0x4, "RESOLVE_NO_SYMLINKS"},
	}
	fsopenFlags  = [...]constant{{0x1, "FSOPEN_CLOEXEC"}}
	fsmountFlags = [...]constant{{0x1, "FSMOUNT_CLOEXEC"}}
	umountFlags  = [...]constant{{0x1, "MNT_FORCE"}, {0x2, "MNT_DETACH"}}
	statxMask    = [...]constant{{0x1, "STATX_TYPE"}, {0x2, "STATX_MODE"}}
	cloneFlags   = [...]constant{
		{0x10000000, "CLONE_NEWUSER"}, {0x20000, "CLONE_NEWNS"}, {0x20000000, "CLONE_NEWPID"},
		{0x40000000, "CLONE_NEWNET"}, {0x8000000, "CLONE_NEWIPC"}, {0x4000000, "CLONE_NEWUTS"},
		{0x2000000, "CLONE_NEWCGROUP"},
	}
	socketTypes = [...]constant{{0x1, "SOCK_STREAM"}, {0x2, "SOCK_DGRAM"}, {0x80000, "SOCK_CLOEXEC"}}

	fsconfigCommands = [...]constant{{0, "FSCONFIG_SET_FLAG"}, {1, "FSCONFIG_SET_STRING"}, {6, "FSCONFIG_CMD_CREATE"}}
	fcntlCommands    = [...]constant{{1, "F_GETFD"}, {2, "F_SETFD"}, {1030, "F_DUPFD_CLOEXEC"}}
	families         = [...]constant{{1, "AF_UNIX"}, {2, "AF_INET"}, {10, "AF_INET6"}, {16, "AF_NETLINK"}}
	ioctls           = [...]constant{{0x8914, "SIOCSIFFLAGS"}, {0x540e, "TIOCSCTTY"}}
	prctlOptions     = [...]constant{
		{1, "PR_SET_PDEATHSIG"}, {4, "PR_SET_DUMPABLE"}, {8, "PR_SET_KEEPCAPS"}, {24, "PR_CAPBSET_DROP"},
		{36, "PR_SET_CHILD_SUBREAPER"}, {38, "PR_SET_NO_NEW_PRIVS"}, {prCapAmbient, "PR_CAP_AMBIENT"},
	}
	ambientCommands = [...]constant{{2, "PR_CAP_AMBIENT_RAISE"}, {4, "PR_CAP_AMBIENT_CLEAR_ALL"}}
	keyctlCommands  = [...]constant{{1, "KEYCTL_JOIN_SESSION_KEYRING"}}
	seccompCommands = [...]constant{{1, "SECCOMP_SET_MODE_FILTER"}}
	maskCommands    = [...]constant{{0, "SIG_BLOCK"}, {1, "SIG_UNBLOCK"}, {2, "SIG_SETMASK"}}
	resources       = [...]constant{
		{0, "RLIMIT_CPU"}, {1, "RLIMIT_FSIZE"}, {2, "RLIMIT_DATA"}, {3, "RLIMIT_STACK"}, {4, "RLIMIT_CORE"},
		{5, "RLIMIT_RSS"}, {6, "RLIMIT_NPROC"}, {7, "RLIMIT_NOFILE"}, {8, "RLIMIT_MEMLOCK"}, {9, "RLIMIT_AS"},
		{10, "RLIMIT_LOCKS"}, {11, "RLIMIT_SIGPENDING"}, {12, "RLIMIT_MSGQUEUE"}, {13, "RLIMIT_NICE"},
		{14, "RLIMIT_RTPRIO"}, {15, "RLIMIT_RTTIME"},
	}
)

func flagsOf(s Sys, n int) []constant {
	switch {
	case s == SysOpenTree, s == SysMountSetattr, s == SysStatx && n == 2:
		return atFlags[:]
	case s == SysStatx:
		return statxMask[:]
	case s == SysMoveMount:
		return moveFlags[:]
	case s == SysFsopen:
		return fsopenFlags[:]
	case s == SysFsmount && n == 1:
		return fsmountFlags[:]
	case s == SysFsmount:
		return mountAttrs[:]
	case s == SysMount:
		return mountFlags[:]
	case s == SysUmount2:
		return umountFlags[:]
	case s == SysUnshare, s == SysSetns, s == Clone:
		return cloneFlags[:]
	case s == SysFchmodat2:
		return atFlags[:]
	case s == SysSocket:
		return socketTypes[:]
	}
	return nil
}

// constantsOf names the values of argument n of o, a call of s.
func constantsOf(s Sys, o *Op, n int) []constant {
	switch s {
	case SysFsconfig:
		return fsconfigCommands[:]
	case SysFcntl:
		return fcntlCommands[:]
	case SysSocket:
		return families[:]
	case SysIoctl:
		return ioctls[:]
	case SysPrctl:
		switch {
		case n == 0:
			return prctlOptions[:]
		case o.Args[0] == prCapAmbient:
			return ambientCommands[:]
		}
	case SysKeyctl:
		return keyctlCommands[:]
	case SysSeccomp:
		return seccompCommands[:]
	case SysSigprocmask:
		return maskCommands[:]
	case SysPrlimit64:
		return resources[:]
	}
	return nil
}

// errnoNames begin with 1, asm-generic/errno-base.h and errno.h.
var errnoNames = [...]string{
	"EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
	"EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
	"EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
	"EDEADLK", "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY", "ELOOP",
}

func errnoName(e syscall.Errno) string {
	switch {
	case e >= 1 && int(e) <= len(errnoNames):
		return errnoNames[e-1]
	case e == syscall.ETIMEDOUT:
		return "ETIMEDOUT"
	case e == syscall.EDQUOT:
		return "EDQUOT"
	case e == syscall.EOPNOTSUPP:
		return "EOPNOTSUPP"
	}
	return "errno " + strconv.Itoa(int(e))
}
