//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// Landlock looks at requests of ioctl(2) for devices only. File systems have requests that change files, their flags or
// the whole file system through a descriptor that is open for reading. The lists below have those of the kernel's file
// systems and of OpenZFS. A FUSE file system can define others, which reach the program that serves it.

// Numbers from linux/fs.h, linux/fiemap.h, linux/msdos_fs.h and fs/ocfs2/ocfs2_ioctl.h.
const (
	fsIocFiemap        = 0xc020660b
	fsIocFsgetxattr    = 0x801c581f
	fsIocGetversion    = 0x80087601
	fsIocGetfslabel    = 0x81009431
	fatSetAttributes   = 0x40047211
	ocfs2GroupExtend   = 0x40046f01
	ocfs2GroupAdd      = 0x40186f02
	ocfs2GroupAdd64    = 0x40186f03
	ocfs2Reflink       = 0x40186f04
	ioctlTypeMask      = 0xff00
	ioctlQuarterMask   = 0xffc0 // the type, and a quarter of its requests
	ioctlQuarterLength = 0x40
)

// allowedIoctls change no file, except through a descriptor that is open for writing.
var allowedIoctls = [...]uint32{unix.FS_IOC_GETFLAGS, fsIocFiemap, fsIocFsgetxattr, fsIocGetversion, fsIocGetfslabel, unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE}

// ioctlTypes are types of requests that only file systems have, or nearly so. All requests of these types are refused
// that are not in allowedIoctls.
var ioctlTypes = [...]uint32{
	'f' << 8,  // flags, encryption, verity; ext4, gfs2, jfs, Lustre and others
	'X' << 8,  // fsxattr, freezing and trimming, shutting down; xfs
	'v' << 8,  // the version of an inode
	0x94 << 8, // btrfs, labels
	0xf5 << 8, // f2fs
	0x97 << 8, // ceph
	0xcf << 8, // cifs
	0xcd << 8, // reiserfs
	0xbc << 8, // bcachefs
	0x93 << 8, // autofs
	0x83 << 8, // OpenZFS
}

// ioctlQuarters are parts of types that file systems share with devices.
var ioctlQuarters = [...]uint32{
	'n'<<8 | 2*ioctlQuarterLength, // nilfs2
	'h'<<8 | 2*ioctlQuarterLength, // hfsplus
	'l'<<8 | ioctlQuarterLength,   // udf
}

// refusedIoctls are requests of types that many devices have.
var refusedIoctls = [...]uint32{fatSetAttributes, ocfs2GroupExtend, ocfs2GroupAdd, ocfs2GroupAdd64, ocfs2Reflink}

// ioctls refuses requests of file systems.
func (f *builder) ioctls() {
	f.Lower(1) // the kernel, too, looks at the lower half only
	for _, allowed := range allowedIoctls {
		f.Add(seccomp.Equal, 0, 1, allowed)
		f.Allow()
	}
	f.refuseEach(refusedIoctls[:])
	f.Add(seccomp.And, 0, 0, ioctlQuarterMask)
	f.refuseEach(ioctlQuarters[:])
	f.Add(seccomp.And, 0, 0, ioctlTypeMask)
	f.refuseEach(ioctlTypes[:])
}

// refuseEach refuses some values.
func (f *builder) refuseEach(values []uint32) {
	for _, v := range values {
		f.Add(seccomp.Equal, 0, 1, v)
		f.Refuse(unix.EPERM)
	}
}
