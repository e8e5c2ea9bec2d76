//go:build linux

package broker

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// A command that may make user namespaces (Options.OwnNetworks) can have network namespaces of its own, for sandboxes
// inside this one, and those rely on it that nothing leads out of them. So the kernel makes and connects the sockets
// there, and they reach nothing else. A process cannot go from there into the sandbox's network.

// elsewhere reports whether a thread is in another network than the sandbox's. If nobody can tell, it is: the kernel
// makes its sockets in the network where it is. Check afterwards that its notification is still valid.
func (b *Broker) elsewhere(thread uint32) bool {
	if !b.o.OwnNetworks {
		return false
	}
	network, e := networkOf(thread)
	return e != 0 || network != b.network
}

// networkOf identifies the network namespace of a thread by its inode.
func networkOf(thread uint32) (ino uint64, e syscall.Errno) {
	var st unix.Stat_t
	if err := unix.Stat(notify.Proc(thread, "ns/net"), &st); err != nil {
		return 0, errno(err)
	}
	return st.Ino, 0
}

// networkOfSocket identifies the network namespace of a socket by its inode.
func networkOfSocket(fd sys.FD) (ino uint64, e syscall.Errno) {
	network, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGSKNS, 0)
	if e != 0 {
		return 0, e
	}
	n := sys.FD(network)
	defer n.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(n), &st); err != nil {
		return 0, errno(err)
	}
	return st.Ino, 0
}

// lookNetwork finds out whether a TCP socket belongs to a network of the command's own. EPERM: it belongs to neither
// that of the caller, nor the sandbox's, nor the host's. If such a socket were exchanged for one of the host, a process
// in a network of its own could have one.
func (c *call) lookNetwork() syscall.Errno {
	if now := cookie(c.old); !c.b.o.OwnNetworks || now == c.b.cookie || now == c.s.host {
		return 0
	}
	caller, e := networkOf(c.task.pid)
	if e != 0 {
		return syscall.EPERM
	}
	socket, e := networkOfSocket(c.old)
	if e != 0 || socket != caller || !c.l.Valid(c.id) {
		return syscall.EPERM
	}
	c.own = true
	return 0
}
