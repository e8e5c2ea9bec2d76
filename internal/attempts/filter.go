//go:build linux

package attempts

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Numbers from linux/seccomp.h and linux/bpf_common.h.
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000
	retAction = 0xffff0000

	ldAbs = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jeq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jge   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jset  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ja    = unix.BPF_JMP | unix.BPF_JA
	ret   = unix.BPF_RET | unix.BPF_K

	dataNr   = 0
	dataArch = 4
	dataArgs = 16 // the lower halves are first, all our architectures being little-endian
)

// told reports whether a filter's refusal is told of. What is missing (ENOSYS) programs expect, and do without.
func told(e syscall.Errno) bool { return e == syscall.EPERM || e == syscall.EAFNOSUPPORT }

// observing is the filter: it tells of calls, of the end of a process that failed, and of what deny refuses in a way that is
// told; else it answers as deny does.
func observing(deny []unix.SockFilter) (f []unix.SockFilter) {
	add := func(code uint16, jt, jf uint8, k uint32) {
		f = append(f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	add(ldAbs, 0, 0, dataNr)
	seen := uint32(0)
	for _, c := range slices.Concat(newCalls, oldCalls) {
		if nr := uint32(c.nr); nr != seen { // those of two paths are there twice, one behind the other
			add(jeq, 0, 1, nr)
			add(ret, 0, 0, retNotify)
			seen = nr
		}
	}
	for _, nr := range signalCalls {
		add(jeq, 0, 1, uint32(nr))
		add(ret, 0, 0, retNotify)
	}
	add(jeq, 0, 1, unix.SYS_LANDLOCK_RESTRICT_SELF) // which package renames has to know of
	add(ret, 0, 0, retNotify)
	add(jeq, 0, 3, unix.SYS_EXIT_GROUP)
	add(ldAbs, 0, 0, dataArgs)
	add(jeq, 1, 0, 0)
	add(ret, 0, 0, retNotify)
	for _, i := range deny {
		if i.Code == ret && i.K&retAction == retErrno && told(syscall.Errno(i.K&^retAction)) {
			i.K = retNotify
		}
		f = append(f, i)
	}
	return f
}

// verdict is what a filter made of the instructions that nsexec.DefaultFilter has answers for a call. Anything else is
// refused.
func verdict(f []unix.SockFilter, nr, arch uint32, args *[6]uint64) uint32 {
	const refuse = retErrno | uint32(syscall.EPERM)
	load := func(at uint32) uint32 {
		switch {
		case at == dataNr:
			return nr
		case at == dataArch:
			return arch
		case at >= dataArgs && at < dataArgs+8*6 && at%4 == 0:
			return uint32(args[(at-dataArgs)/8] >> (8 * (at % 8)))
		}
		return 0
	}
	a := uint32(0)
	for at := 0; at < len(f); at++ {
		i := f[at]
		jump := false
		switch i.Code {
		case ldAbs:
			a = load(i.K)
			continue
		case ret:
			return i.K
		case ja:
			at += int(i.K)
			continue
		case jeq:
			jump = a == i.K
		case jge:
			jump = a >= i.K
		case jset:
			jump = a&i.K != 0
		default:
			return refuse
		}
		if jump {
			at += int(i.Jt)
		} else {
			at += int(i.Jf)
		}
	}
	return refuse
}
