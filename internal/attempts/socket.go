//go:build linux

package attempts

import (
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// observeSockets reports sockets for ICMP, raw ones, and with the privilege to change the network those of netlink.
func observeSockets(f *seccomp.Filter, held uint64) {
	f.When(seccomp.Equal, unix.SYS_SOCKET, func() {
		f.Lower(2)
		f.When(seccomp.Equal, unix.IPPROTO_ICMP, f.Notify)
		f.When(seccomp.Equal, unix.IPPROTO_ICMPV6, f.Notify)
		if held&(1<<unix.CAP_NET_RAW) != 0 {
			f.Lower(1)
			f.Add(seccomp.And, 0, 0, seccomp.SockTypeMask)
			f.When(seccomp.Equal, unix.SOCK_RAW, f.Notify)
		}
		if held&(1<<unix.CAP_NET_ADMIN) != 0 {
			f.Lower(0)
			f.When(seccomp.Equal, unix.AF_NETLINK, f.Notify)
		}
		f.Nr()
	})
}

// socket handles a call that makes a socket.
func (o *Observer) socket(n *notify.Notification) {
	kind, protocol := n.Args[1]&seccomp.SockTypeMask, int32(n.Args[2])
	a := Attempt{Kind: Syscall, Path: "socket", Err: unix.EPERM, Needs: 1 << unix.CAP_NET_RAW, Privileges: true}
	switch int32(n.Args[0]) {
	case unix.AF_NETLINK:
		a.Needs, a.Netlink = 1<<unix.CAP_NET_ADMIN, true
	case unix.AF_INET, unix.AF_INET6:
		if protocol == unix.IPPROTO_ICMP || protocol == unix.IPPROTO_ICMPV6 {
			a = Attempt{Kind: Syscall, Path: "socket", Err: unix.EACCES, ICMP: true, Needs: a.Needs}
			switch {
			case kind != unix.SOCK_RAW:
				a.Needs = 1<<64 - 1 // no privilege helps, see net.ipv4.ping_group_range
			case raises(n.PID):
				a.Needs = anyone
			}
		} else if kind != unix.SOCK_RAW {
			return
		}
	default:
		return // there the numbers mean something else
	}
	o.tell(n, a)
}

// raises reports whether the program of a process has privileges of its own outside a sandbox: a set-user-id bit, or
// capabilities.
func raises(thread uint32) bool {
	n, err := unix.Open(notify.Proc(thread, "exe"), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	exe := sys.FD(n)
	defer exe.Close()
	var st unix.Stat_t
	if unix.Fstat(n, &st) == nil && st.Mode&unix.S_ISUID != 0 && st.Uid == 0 {
		return true
	}
	_, err = unix.Getxattr(sys.ProcPath(n), "security.capability", nil)
	return err == nil
}

// raisers are programs whose whole work is to get the privileges of another user. Others, such as mount(8), often fail
// for users outside a sandbox, too.
var raisers = []string{"su", "sudo", "doas", "pkexec"}

// setID reports the execution of one of raisers.
func (o *Observer) setID(n *notify.Notification, fd sys.FD) {
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil || st.Mode&unix.S_ISUID == 0 || st.Uid != 0 || os.Geteuid() == 0 {
		return
	}
	if name := link(fd); slices.Contains(raisers, path.Base(name)) {
		o.tell(n, Attempt{Kind: Exec, Path: name, SetID: true})
	}
}
