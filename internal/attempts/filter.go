//go:build linux

package attempts

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// told reports whether a filter's refusal with an error is reported. Programs do without calls that are missing
// (ENOSYS), but for io_uring_setup(2).
func told(e syscall.Errno) bool { return e == syscall.EPERM || e == syscall.EAFNOSUPPORT }

// observing returns the filter. It reports calls with a path or an address, the end of processes, what they write to
// standard error, and refusals by deny, if told says so; with owners also ownerCalls; and rootCalls for which the
// privileges held are enough. For all other calls it answers as deny does.
func observing(deny []unix.SockFilter, owners bool, held uint64) (f seccomp.Filter) {
	f.Nr()
	seen := uint32(0)
	for _, c := range slices.Concat(newCalls, oldCalls) {
		nr := uint32(c.nr)
		switch {
		case nr == seen: // the second entry of a call with two paths
		case c.deed == looks && c.flags >= 0:
			// C libraries use it mostly for open descriptors, without a path.
			f.When(seccomp.Equal, nr, func() {
				f.Lower(uint32(c.flags))
				f.Add(seccomp.AnyBit, 1, 0, unix.AT_EMPTY_PATH)
				f.Notify()
				f.Nr()
			})
		case nr == unix.SYS_UTIMENSAT:
			f.When(seccomp.Equal, nr, func() { // without a path it is about an open file
				f.Lower(uint32(c.path))
				f.Add(seccomp.Equal, 0, 2, 0)
				f.Upper(uint32(c.path))
				f.Add(seccomp.Equal, 1, 0, 0)
				f.Notify()
				f.Nr()
			})
		default:
			f.When(seccomp.Equal, nr, f.Notify)
		}
		seen = nr
	}
	for _, nr := range signalCalls {
		f.When(seccomp.Equal, uint32(nr), f.Notify)
	}
	if owners {
		for i := range ownerCalls {
			f.When(seccomp.Equal, uint32(ownerCalls[i].nr), func() { reportOwners(&f, &ownerCalls[i]) })
		}
	}
	observeRoot(&f, held)
	f.When(seccomp.Equal, unix.SYS_PTRACE, func() {
		f.Lower(0)
		f.When(seccomp.Equal, unix.PTRACE_ATTACH, f.Notify)
		f.When(seccomp.Equal, unix.PTRACE_SEIZE, f.Notify)
		f.Nr()
	})
	observeSockets(&f, held)
	f.When(seccomp.Equal, unix.SYS_LANDLOCK_RESTRICT_SELF, f.Notify) // package renames must know of it
	f.When(seccomp.Equal, unix.SYS_EXIT_GROUP, f.Notify)
	f.When(seccomp.Equal, unix.SYS_CHROOT, f.Notify)
	f.When(seccomp.Equal, unix.SYS_IO_URING_SETUP, f.Notify)
	f.When(seccomp.Equal, unix.SYS_SENDTO, func() {
		const address = 4
		f.Lower(address)
		f.Add(seccomp.Equal, 1, 0, 0) // without an address it is like write(2)
		f.Notify()
		f.Nr()
	})
	reportJoins(&f)
	reportWrites(&f, standardError)
	for _, i := range deny {
		if i.Code == seccomp.Return && i.K&seccomp.Action == seccomp.Refuse && told(syscall.Errno(i.K&^seccomp.Action)) {
			i.K = seccomp.Notify
		}
		f = append(f, i)
	}
	return f
}

// reportOwners reports a call that names another id than root's. Programs often set the ids that they have.
func reportOwners(f *seccomp.Filter, c *ownerCall) {
	if c.nr == unix.SYS_FCHOWN || len(c.ids) == 0 {
		f.Notify()
		return
	}
	for _, arg := range c.ids {
		f.Lower(uint32(arg))
		f.Add(seccomp.Equal, 2, 0, 0)
		f.Add(seccomp.Equal, 1, 0, keep)
		f.Notify()
	}
	f.Nr()
}

// reportWrites reports writes to descriptors.
func reportWrites(f *seccomp.Filter, to ...uint32) {
	for _, nr := range [...]uint32{unix.SYS_WRITE, unix.SYS_WRITEV} {
		f.When(seccomp.Equal, nr, func() {
			f.Lower(0)
			for _, fd := range to {
				f.When(seccomp.Equal, fd, f.Notify)
			}
			f.Nr()
		})
	}
}

// verdict returns a filter's answer to a call. It knows the instructions that nsexec.DefaultFilter uses. Any other
// instruction is a refusal.
func verdict(f []unix.SockFilter, nr, arch uint32, args *[6]uint64) uint32 {
	return decide(unsafe.SliceData(f), uintptr(len(f)), nr, arch, args)
}

// decide is verdict, for quick: f has size instructions.
//
//go:nosplit
//go:norace
func decide(f *unix.SockFilter, size uintptr, nr, arch uint32, args *[6]uint64) uint32 {
	const refuse = seccomp.Refuse | uint32(syscall.EPERM)
	a := uint32(0)
	for at := uintptr(0); at < size; at++ {
		i := (*unix.SockFilter)(unsafe.Add(unsafe.Pointer(f), at*unsafe.Sizeof(*f)))
		jump := false
		switch i.Code {
		case seccomp.Load:
			switch {
			case i.K == seccomp.DataNr:
				a = nr
			case i.K == seccomp.DataArch:
				a = arch
			case i.K >= seccomp.DataArgs && i.K < seccomp.DataArgs+8*6 && i.K%4 == 0:
				a = *(*uint32)(unsafe.Add(unsafe.Pointer(args), i.K-seccomp.DataArgs))
			default:
				a = 0
			}
			continue
		case seccomp.Return:
			return i.K
		case seccomp.Jump:
			at += uintptr(i.K)
			continue
		case seccomp.Equal:
			jump = a == i.K
		case seccomp.AtLeast:
			jump = a >= i.K
		case seccomp.AnyBit:
			jump = a&i.K != 0
		default:
			return refuse
		}
		if jump {
			at += uintptr(i.Jt)
		} else {
			at += uintptr(i.Jf)
		}
	}
	return refuse
}
