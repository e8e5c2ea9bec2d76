//go:build linux

package testenv

import "golang.org/x/sys/unix"

// FixedRoot lets pivot_root(2) fail for good, in all threads of the process and what they start, as where the root is
// an initramfs. It succeeds if both arguments are one string, as for a root that covers another.
func FixedRoot() error {
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ, unix.BPF_RET | unix.BPF_K
	const first, second = 16, 16 + 8 // the offsets of the arguments
	return filter([]unix.SockFilter{
		{Code: load, K: 0},
		{Code: equal | unix.BPF_K, K: unix.SYS_PIVOT_ROOT, Jf: 5},
		{Code: load, K: first},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: load, K: second},
		{Code: equal | unix.BPF_X, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}, true)
}
