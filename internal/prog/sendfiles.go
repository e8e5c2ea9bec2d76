//go:build linux && !nsrun_image

package prog

import "syscall"

func (b *Builder) SendFiles(sock, flags Arg, fds []Slot) Ref {
	// struct cmsghdr, and behind it the descriptors, with room for one too many.
	control := b.Words(uint64(syscall.CmsgLen(4*len(fds))), syscall.SOL_SOCKET|syscall.SCM_RIGHTS<<32)
	b.Zero(4*len(fds) + 8)
	for i, fd := range fds {
		// Eight bytes each time: the next one goes over the upper half.
		b.Call(Store, (control + Ptr(16+4*i)).Arg(), fd.Arg())
	}
	iov := b.Words(0, 1)
	b.Relocate(iov, 0, control.Arg())                                           // any byte will do
	message := b.Words(0, 0, 0, 1, 0, uint64(syscall.CmsgSpace(4*len(fds))), 0) // struct msghdr
	b.Relocate(message, 2, iov.Arg())
	b.Relocate(message, 4, control.Arg())
	return b.Call(SysSendmsg, sock, message.Arg(), flags)
}
