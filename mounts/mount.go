package mounts

import "io/fs"

// Kind says what a Mount does. The zero Kind is invalid.
type Kind uint8

// The kinds of step a Plan is made of.
const (
	kindInvalid Kind = iota
	KindBind         // a host file or tree, recursively
	KindTmpfs        // an empty file system in memory
	KindProc         // a new procfs for the sandbox's PID namespace
	KindDev          // a small /dev: null zero full random urandom tty, pts, shm
	KindMqueue       // the POSIX message queues of the sandbox's IPC namespace
	KindOverlay      // lower directories with a writable layer over them
	KindDir          // a directory
	KindFile         // a file with given content
	KindSymlink      // a symbolic link
	KindRemount      // the mount at Target becomes read-only
	KindBlock        // whatever is at Target can be neither read nor listed
	KindChmod        // the mode of what is at Target
	KindData         // a file with given content, mounted over Target
	KindLayer        // a mount of the caller's, where only later steps see it
)

// A Perm is the mode of a directory, whose path is relative to a mount's target.
type Perm struct {
	Path string
	Perm fs.FileMode
}

// A Text is a file with given content, whose path is relative to a mount's target.
type Text struct {
	Path string
	Data []byte
	Perm fs.FileMode // zero: 0600
}

// A Mount is one step of a Plan: plain data that can be copied. Make one with Bind, Tmpfs, Proc and so on; the
// modifiers (Mount.RO, Mount.Try, …) return changed copies.
//
// If a later step mounts something below a writable mount, the directories between the two cannot be renamed or
// removed. Below the target of a writable bind or overlay no symbolic link is followed: a command could have put it
// there.
//
// Sources are paths of the host, resolved in the sandbox's own copy of the host's mounts just before they are needed.
// Targets are paths in the sandbox; symbolic links in their parents are followed inside the new root only, and a target
// that is itself a symbolic link is refused.
type Mount struct {
	Kind Kind
	// Source is an absolute path of the host for KindBind; the link's text for KindSymlink; for KindProc the host's
	// procfs, to be shown instead of a new one; for KindDev the caller's terminal, to be shown as the console.
	Source string
	Target string // absolute path in the sandbox

	// Same is the file that Source must be, for KindBind and KindDev, and the last directory of Lower for
	// KindOverlay. Zero: any file.
	Same FileID

	// Onto is the file that Target must be, if nothing but binds of the host at their own paths is mounted there
	// yet. Zero: any file.
	Onto FileID

	// ReadOnly makes a bind and everything mounted below it, a tmpfs, or an overlay read-only. False: it is as
	// writable as the source.
	ReadOnly bool

	// Devices lets device nodes of a bind work. False: nodev.
	Devices bool

	// Optional skips the step if the source (for KindTmpfs, KindBlock, KindRemount and KindChmod: the target) does
	// not exist. False: that is an error.
	Optional bool

	// NonRecursive binds only the one mount that holds Source, not the mounts below it. False: the whole tree.
	NonRecursive bool

	// MustExist makes a missing target an error. False: the mount point is created, and missing parents are created
	// with mode ParentPerm.
	MustExist bool

	// Perm is the mode of a tmpfs root, directory or file, and for KindDev of the directory shm, including
	// fs.ModeSticky and the like. Zero: the usual mode of the kind (0755, files 0644, KindData 0600, shm 1777),
	// unless HasPerm is set.
	Perm    fs.FileMode
	HasPerm bool

	// ParentPerm is the mode of parents that are created. Zero: 0755.
	ParentPerm fs.FileMode

	// Size limits a tmpfs, in bytes. Zero: the kernel's default, half of memory.
	Size uint64

	// Lower are the lower directories of an overlay, the topmost first. A
	// writable overlay has Upper and Work, both on one file system.
	Lower       []string
	Upper, Work string

	// Temporary gives an overlay a writable layer that is gone with the sandbox.
	// False: it has Upper and Work, or is read-only.
	Temporary bool

	// Volatile stops an overlay with an upper directory from syncing: unmounting it does not wait until the whole
	// file system is written back, and fsync(2) in it does nothing. Files in the upper directory may be cut off
	// after a power failure, and the work directory can be used again only if its work/incompat is removed
	// (Documentation/filesystems/overlayfs.rst, Linux 5.10). False: it is as durable as the file system.
	Volatile bool

	// Hide are paths, relative to an overlay, that it does not show although its lower directories have them. Nil:
	// none.
	Hide []string

	// Dirs are paths, relative to an overlay, of directories that it shows even if its lower directories have none:
	// mount points. Their mode is ParentPerm. They cover anything else at their paths. With Dirs, the root of an
	// overlay without Upper has the mode Perm. Nil: none.
	Dirs []string

	// Files are like Dirs, but empty files: mount points for files. Nil: none.
	Files []string

	// Texts are files that an overlay shows, whatever its lower directories have at these paths. Nil: none.
	Texts []Text

	// Over uses as the overlay's lowest lower directory what its target shows before, as earlier steps mounted it.
	// False: the lower directories are those in Lower.
	Over bool

	// Perms are modes of directories that nsrun creates in a layer for Hide, Dirs, Files and Texts: an overlay
	// shows a directory with the mode of its topmost layer. Nil: 0755.
	Perms []Perm

	// Layer is the index in nsexec.Cmd.Layers of the mount that a KindLayer attaches.
	Layer int

	// Data is the content of a KindFile or KindData.
	Data []byte
}

// FileID identifies a file by device and inode number, see stat(2). The zero FileID is no file.
type FileID struct {
	Ino          uint64
	Major, Minor uint32 // of the device
}

// Bind shows the host's source at target, writable, with everything that is mounted below it; nosuid and nodev.
func Bind(source, target string) Mount { return Mount{Kind: KindBind, Source: source, Target: target} }

// ROBind is Bind, read-only, whatever is mounted below source.
func ROBind(source, target string) Mount {
	return Mount{Kind: KindBind, Source: source, Target: target, ReadOnly: true}
}

// DevBind is Bind with working device nodes.
func DevBind(source, target string) Mount {
	return Mount{Kind: KindBind, Source: source, Target: target, Devices: true}
}

// Tmpfs is an empty, writable file system in memory.
func Tmpfs(target string) Mount { return Mount{Kind: KindTmpfs, Target: target} }

// Proc is a procfs of the sandbox's own PID namespace. The parts through which
// root could change the host (sys, irq, bus, sysrq-trigger) are read-only.
func Proc(target string) Mount { return Mount{Kind: KindProc, Target: target} }

// Dev is a private /dev with the harmless devices, a new devpts, and shm.
func Dev(target string) Mount { return Mount{Kind: KindDev, Target: target} }

// Mqueue is the message queue file system of the sandbox's IPC namespace.
func Mqueue(target string) Mount { return Mount{Kind: KindMqueue, Target: target} }

// Overlay shows lower (the topmost first) at target; writes go to upper. work is an empty directory on the same file
// system as upper. The overlay is mounted with userxattr, so that it can be mounted in a user namespace, and its marks
// are always user.overlay.* attributes (Documentation/filesystems/overlayfs.rst).
func Overlay(target, upper, work string, lower ...string) Mount {
	return Mount{Kind: KindOverlay, Target: target, Upper: upper, Work: work, Lower: lower}
}

// ROOverlay shows two or more directories as one, read-only.
func ROOverlay(target string, lower ...string) Mount {
	return Mount{Kind: KindOverlay, Target: target, Lower: lower, ReadOnly: true}
}

// Dir is a directory; one that exists already stays as it is.
func Dir(target string) Mount { return Mount{Kind: KindDir, Target: target} }

// File is a file with the given content on the file system that holds target.
func File(target string, data []byte) Mount { return Mount{Kind: KindFile, Target: target, Data: data} }

// Data is a file with the given content that is mounted over target, nosuid and nodev. It is on no file system that the
// command can see.
func Data(target string, data []byte) Mount { return Mount{Kind: KindData, Target: target, Data: data} }

// TmpOverlay is like Overlay, but what is written is gone with the sandbox.
func TmpOverlay(target string, lower ...string) Mount {
	return Mount{Kind: KindOverlay, Target: target, Lower: lower, Temporary: true}
}

// Symlink is a symbolic link at target with the given text.
func Symlink(text, target string) Mount {
	return Mount{Kind: KindSymlink, Source: text, Target: target}
}

// Remount makes the one mount at target read-only.
func Remount(target string) Mount { return Mount{Kind: KindRemount, Target: target, ReadOnly: true} }

// Block hides target: a directory is empty and cannot be entered, and a file cannot be opened. If target does not
// exist, it does nothing.
func Block(target string) Mount {
	return Mount{Kind: KindBlock, Target: target, Optional: true, MustExist: true}
}

// Chmod sets the mode of what is at target.
func Chmod(mode fs.FileMode, target string) Mount {
	return Mount{Kind: KindChmod, Target: target, Perm: mode, HasPerm: true, MustExist: true}
}

// Layer attaches a mount that the caller made, and of which it keeps a descriptor (fsmount(2)), at dir, a path of a
// host directory without symbolic links. It attaches the mount only in the sandbox's own copy of the host's mounts, and
// before anything else, so that sources of binds and layers of overlays can lie in it. n is the descriptor's index in
// nsexec.Cmd.Layers.
func Layer(n int, dir string) Mount { return Mount{Kind: KindLayer, Layer: n, Target: dir} }

// RO returns a copy of m that is read-only.
func (m Mount) RO() Mount { m.ReadOnly = true; return m }

// Try returns a copy of m that is skipped if its source does not exist.
func (m Mount) Try() Mount { m.Optional = true; return m }

// WithPerm returns a copy of m with the given mode; zero means 0000.
func (m Mount) WithPerm(perm fs.FileMode) Mount { m.Perm, m.HasPerm = perm, true; return m }

// WithSize returns a copy of m limited to size bytes.
func (m Mount) WithSize(size uint64) Mount { m.Size = size; return m }

// Covers reports whether something is mounted over the target.
func (m *Mount) Covers() bool {
	switch m.Kind {
	case KindBind, KindTmpfs, KindProc, KindDev, KindMqueue, KindOverlay, KindBlock, KindData:
		return true
	}
	return false
}
