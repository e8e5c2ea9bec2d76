//go:build linux

package cgroup

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// SocketFilter returns a seccomp filter (nsexec.Filter) for calls that the BPF programs do not see. It refuses sockets
// of families other than IP and unix, netlink sockets except for NETLINK_ROUTE, which lists routes and addresses, and
// io_uring, which makes sockets that no filter sees. System calls of other architectures fail.
func SocketFilter() []unix.SockFilter {
	var f seccomp.Filter
	f.Begin(seccomp.Arch, seccomp.HasX32)
	for _, nr := range [...]uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		f.When(seccomp.Equal, nr, func() { f.Refuse(unix.ENOSYS) })
	}
	f.Add(seccomp.Equal, 2, 0, unix.SYS_SOCKET)
	f.Add(seccomp.Equal, 1, 0, unix.SYS_SOCKETPAIR) // whose sockets could send elsewhere, too: those of AF_TIPC can
	f.Allow()
	f.Lower(0)
	for _, family := range [...]uint32{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX} {
		f.When(seccomp.Equal, family, f.Allow)
	}
	f.Add(seccomp.Equal, 1, 0, unix.AF_NETLINK)
	f.Refuse(unix.EAFNOSUPPORT)
	f.Lower(2)
	f.When(seccomp.Equal, unix.NETLINK_ROUTE, f.Allow)
	f.Refuse(unix.EPROTONOSUPPORT)
	return f
}
