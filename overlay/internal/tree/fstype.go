//go:build linux

package tree

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Types of file systems of statfs(2) that package unix does not have.
const (
	magicNTFS  = 0x5346544e
	magicNTFS3 = 0x7366746e
)

// FSType returns the type of the file system that h is on.
func FSType(h *Handle) (uint32, error) {
	var st unix.Statfs_t
	err := sys.Retry(func() error { return unix.Fstatfs(int(h.FD), &st) })
	return uint32(st.Type), err
}

// ReadOnly reports whether nobody can write to the directory h because its file system, the mount of it, or its
// subvolume is read-only.
func ReadOnly(h *Handle) bool {
	if unix.Faccessat(int(h.FD), ".", unix.W_OK, 0) == unix.EROFS {
		return true
	}
	var st unix.Statfs_t // to the caller, the directory may be closed
	return sys.Retry(func() error { return unix.Fstatfs(int(h.FD), &st) }) == nil && st.Flags&unix.ST_RDONLY != 0
}

// IsLower reports whether an overlay can lie over a directory of this file system. It cannot
// if names differ only by their case.
func IsLower(typ uint32) bool {
	return typ != unix.MSDOS_SUPER_MAGIC && typ != unix.EXFAT_SUPER_MAGIC && typ != magicNTFS && typ != magicNTFS3
}

// HoldsLinks reports whether this file system can hold symbolic links, FIFOs and sockets.
func HoldsLinks(typ uint32) bool {
	return typ != unix.MSDOS_SUPER_MAGIC && typ != unix.EXFAT_SUPER_MAGIC
}

// IsUpper reports whether an overlay can have its upper directory on this file system. If
// sure is false, that has to be tried.
func IsUpper(typ uint32) (ok, sure bool) {
	switch typ {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC:
		return true, true
	case unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, magicNTFS, magicNTFS3,
		unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC:
		return false, true
	}
	return false, false
}

// onFUSE reports whether h is on a file system of FUSE. Some of them, such as that of rclone, answer EIO to what they
// cannot do.
func (h *Handle) onFUSE() bool {
	typ, err := FSType(h)
	return err == nil && typ == unix.FUSE_SUPER_MAGIC
}

// ServesOverlay reports whether overlayfs can ask for its marks on the files of the project h: where the answer is EIO,
// it opens none of them.
func ServesOverlay(h *Handle) bool {
	if !h.onFUSE() {
		return true
	}
	top, err := h.OpenDir(".")
	if err != nil {
		return true
	}
	defer top.Close()
	names, _ := top.Names()
	for _, name := range names[:min(len(names), 100)] {
		if st, err := top.Lstat(name); err == nil && st.IsReg() {
			_, err := unix.Lgetxattr(top.ProcPath()+"/"+name, OverlayPrefix+"metacopy", nil)
			return err != unix.EIO
		}
	}
	return true
}

// HoldsModes reports whether this file system can hold a copy of a project.
func HoldsModes(typ uint32) bool {
	return IsLower(typ) && typ != unix.CIFS_SUPER_MAGIC && typ != unix.SMB2_SUPER_MAGIC && typ != unix.FUSE_SUPER_MAGIC
}

// A Disk tells the file system of a directory from another one.
type Disk struct {
	ID uint64 // f_fsid of statfs(2); zero: it is not known

	// Birth is when the directory was made, in nanoseconds since 1970, if the ID is only the number of the device, as
	// on XFS: the next start of the machine, or plugging the disk in again, may give it another number. Zero: the ID
	// stays, or the time is not known.
	Birth int64
}

// Is reports whether the directory that had the Disk was is on the same file system. The caller has compared the inode
// numbers.
func (d Disk) Is(was Disk) bool {
	return was.ID == 0 || d.ID == was.ID || was.Birth != 0 && d.Birth == was.Birth
}

// DiskOf returns the Disk of a directory.
func DiskOf(h *Handle) (Disk, error) {
	var st unix.Statfs_t
	if err := sys.Retry(func() error { return unix.Fstatfs(int(h.FD), &st) }); err != nil {
		return Disk{}, err
	}
	if st.Fsid.Val[1] != 0 { // never with the number of a device
		return diskOf(st.Fsid.Val, unix.Statx_t{}), nil
	}
	var stx unix.Statx_t
	err := sys.Statx(int(h.FD), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &stx)
	return diskOf(st.Fsid.Val, stx), err
}

func diskOf(fsid [2]int32, stx unix.Statx_t) Disk {
	d := Disk{ID: uint64(uint32(fsid[0]))<<32 | uint64(uint32(fsid[1]))}
	// The number as file systems write it into f_fsid: new_encode_dev of linux/kdev_t.h.
	dev := stx.Dev_minor&0xff | stx.Dev_major<<8 | stx.Dev_minor&^0xff<<12
	if d.ID != 0 && fsid == [2]int32{int32(dev)} && stx.Mask&unix.STATX_BTIME != 0 {
		d.Birth = stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
	}
	return d
}

// TakesMarks reports whether overlayfs can put its marks on directories in dir.
func TakesMarks(dir *Handle) bool {
	const name = ".marks"
	if dir.Mkdir(name) != nil {
		return false
	}
	defer dir.Unlink(name, unix.AT_REMOVEDIR)
	h, err := dir.OpenDir(name)
	if err != nil {
		return false
	}
	defer h.Close()
	return unix.Fsetxattr(int(h.FD), OverlayPrefix+"opaque", []byte("y"), 0) == nil
}

// A MountID identifies a mount. Objects can be renamed only within one.
type MountID struct{ dev, id uint64 }

func (h *Handle) Mount() (MountID, error) {
	var stx unix.Statx_t
	err := sys.Statx(int(h.FD), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID|unix.STATX_INO, &stx)
	if err != nil {
		return MountID{}, err
	}
	m := MountID{dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor), id: stx.Mnt_id}
	if stx.Mask&unix.STATX_MNT_ID == 0 { // statx(2) is refused, and /proc does not tell
		m.id = uint64(os.Getpid())
	}
	return m, nil
}
