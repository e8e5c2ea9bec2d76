//go:build linux

package cgroup

import "golang.org/x/sys/unix"

// Numbers from linux/seccomp.h and linux/bpf_common.h.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000

	load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jump = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jge  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	ret  = unix.BPF_RET | unix.BPF_K

	offNr   = 0
	offArch = 4
	offArgs = 16
)

// SocketFilter is a seccomp filter (nsexec.Filter) for what the programs in the kernel are not
// asked about: sockets of other families than IP and unix, of netlink but for what routes and
// addresses there are, and io_uring, which makes sockets that no filter sees. System calls
// of other architectures fail.
func SocketFilter() []unix.SockFilter {
	var f []unix.SockFilter
	add := func(code uint16, jt, jf uint8, k uint32) {
		f = append(f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	refuse := func(e unix.Errno) { add(ret, 0, 0, retErrno|uint32(e)) }
	add(load, 0, 0, offArch)
	add(jump, 1, 0, auditArch)
	refuse(unix.ENOSYS)
	add(load, 0, 0, offNr)
	if x32Bit != 0 {
		add(jge, 0, 1, x32Bit)
		refuse(unix.ENOSYS)
	}
	for _, nr := range [...]uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		add(jump, 0, 1, nr)
		refuse(unix.ENOSYS)
	}
	add(jump, 1, 0, unix.SYS_SOCKET)
	add(ret, 0, 0, retAllow)
	add(load, 0, 0, offArgs)
	for _, family := range [...]uint32{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX} {
		add(jump, 0, 1, family)
		add(ret, 0, 0, retAllow)
	}
	add(jump, 1, 0, unix.AF_NETLINK)
	refuse(unix.EAFNOSUPPORT)
	add(load, 0, 0, offArgs+16)
	add(jump, 0, 1, unix.NETLINK_ROUTE)
	add(ret, 0, 0, retAllow)
	refuse(unix.EPROTONOSUPPORT)
	return f
}
