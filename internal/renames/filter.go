//go:build linux

package renames

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Numbers from linux/seccomp.h and linux/bpf_common.h.
const (
	retNotify = 0x7fc00000

	ldAbs = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jeq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ret   = unix.BPF_RET | unix.BPF_K

	dataNr   = 0
	dataArch = 4
)

// calls are what the filter tells of.
var calls = append([]uint32{unix.SYS_RENAMEAT2, unix.SYS_RENAMEAT, unix.SYS_LINKAT, unix.SYS_LANDLOCK_RESTRICT_SELF}, oldCalls...)

// filter tells of calls; else it answers as deny does, which has to refuse the calls of other architectures.
func filter(deny []unix.SockFilter) []unix.SockFilter {
	f := make([]unix.SockFilter, 0, len(calls)+5+len(deny))
	f = append(f,
		unix.SockFilter{Code: ldAbs, K: dataArch},
		unix.SockFilter{Code: jeq, Jf: uint8(len(calls) + 2), K: auditArch},
		unix.SockFilter{Code: ldAbs, K: dataNr})
	for i, nr := range calls {
		jump := unix.SockFilter{Code: jeq, Jt: uint8(len(calls) - 1 - i), K: nr}
		if i == len(calls)-1 {
			jump.Jf = 1
		}
		f = append(f, jump)
	}
	return slices.Concat(f, []unix.SockFilter{{Code: ret, K: retNotify}}, deny)
}
