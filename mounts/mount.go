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

// A Mount is one step of a Plan: plain data that can be copied and compared by
// eye. Make one with Bind, Tmpfs, Proc and so on; the modifiers (Mount.RO,
// Mount.Try, …) return changed copies.
//
// A directory between a writable mount and what a later step mounts below it cannot be
// renamed or removed, and behind the target of a bind or an overlay that is writable no
// link is followed: commands could have put it there.
//
// Sources are paths of the host, resolved in the sandbox's own copy of the
// host's mounts just before they are needed. Targets are paths of the sandbox;
// symbolic links in their parents are followed inside the new root only, and a
// target that is itself a symbolic link is refused.
type Mount struct {
	Kind Kind
	// Source is an absolute path of the host for KindBind; the link's text for
	// KindSymlink; for KindProc the host's procfs, to be shown instead of a new one;
	// for KindDev the caller's terminal, to be shown as the console.
	Source string
	Target string // absolute path in the sandbox

	// Same is what Source has to be, for KindBind and KindDev. Zero: whatever is
	// there.
	Same FileID

	// ReadOnly makes a bind and everything mounted below it, a tmpfs, or an
	// overlay read-only. False: writable as far as the source is.
	ReadOnly bool

	// Devices lets device nodes of a bind work. False: nodev.
	Devices bool

	// Optional skips the step where the source (for KindTmpfs, KindBlock, KindRemount and
	// KindChmod: the target) does not exist. False: that is an error.
	Optional bool

	// NonRecursive binds only the one mount that holds Source, not the mounts
	// below it. False: the whole tree.
	NonRecursive bool

	// MustExist refuses to create a missing target. False: missing parents are
	// made with mode ParentPerm and the mount point itself is made as well.
	MustExist bool

	// Perm is the mode of a tmpfs root, directory or file, for KindDev of the
	// directory shm, fs.ModeSticky and the like included. Zero: the usual mode of the
	// kind (0755, files 0644, KindData 0600, shm 1777), unless HasPerm says that zero
	// is meant.
	Perm    fs.FileMode
	HasPerm bool

	// ParentPerm is the mode of parents that had to be made. Zero: 0755.
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

	// Volatile lets an overlay with an upper directory write nothing to disk for its own
	// sake: its end does not wait until the whole file system is written back, and
	// fsync(2) in it does nothing. What is in the upper directory may be cut off after a
	// power cut, and the work directory can be used again only if its work/incompat is
	// removed (Documentation/filesystems/overlayfs.rst, Linux 5.10). False: it is as durable
	// as the file system.
	Volatile bool

	// Hide are paths, relative to an overlay, of its lower directories that it does not
	// show. Nil: none.
	Hide []string

	// Dirs are paths, relative to an overlay, of directories that it shows though its lower
	// directories may have none: mount points. Their mode is ParentPerm, and what else is
	// at such a path they cover. The root of an overlay without Upper has the mode Perm
	// then. Nil: none.
	Dirs []string

	// Files are as Dirs, of empty files: mount points for files. Nil: none.
	Files []string

	// Texts are files that an overlay shows, whatever its lower directories have by these names. Nil: none.
	Texts []Text

	// Over makes what an overlay's target shows before its lowest lower directory: steps before it have mounted that.
	// False: it has those in Lower.
	Over bool

	// Perms are modes of directories that an overlay needs for Hide, Dirs, Files and Texts: a directory that it shows has the mode
	// that its topmost layer gives it. Nil: 0755.
	Perms []Perm

	// Layer says which of the caller's mounts a KindLayer attaches.
	Layer int

	// Data is the content of a KindFile or KindData.
	Data []byte
}

// FileID says which file a descriptor or path is, see stat(2). The zero FileID is
// no file.
type FileID struct {
	Ino          uint64
	Major, Minor uint32 // of the device
}

// Bind makes the host's source appear at target, writable, with all that is
// mounted below it; nosuid and nodev.
func Bind(source, target string) Mount {
	return Mount{Kind: KindBind, Source: source, Target: target}
}

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

// Overlay shows lower (the topmost first) at target; what is written goes to
// upper. work is an empty directory on the same file system as upper.
// The overlay is mounted with userxattr, so that a user namespace can do it and
// the layer's marks are user.overlay.* attributes in either case.
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
func File(target string, data []byte) Mount {
	return Mount{Kind: KindFile, Target: target, Data: data}
}

// Data is a file with the given content that hides what is at target: it is
// mounted there, nosuid and nodev, and is on no file system that can be seen.
func Data(target string, data []byte) Mount {
	return Mount{Kind: KindData, Target: target, Data: data}
}

// TmpOverlay is Overlay; what is written is gone with the sandbox.
func TmpOverlay(target string, lower ...string) Mount {
	return Mount{Kind: KindOverlay, Target: target, Lower: lower, Temporary: true}
}

// Symlink is a symbolic link at target with the given text.
func Symlink(text, target string) Mount {
	return Mount{Kind: KindSymlink, Source: text, Target: target}
}

// Remount makes the one mount at target read-only.
func Remount(target string) Mount {
	return Mount{Kind: KindRemount, Target: target, ReadOnly: true}
}

// Block hides what is at target: a directory is empty and cannot be entered, a
// file cannot be opened. Where nothing is, nothing is done.
func Block(target string) Mount {
	return Mount{Kind: KindBlock, Target: target, Optional: true, MustExist: true}
}

// Chmod sets the mode of what is at target.
func Chmod(mode fs.FileMode, target string) Mount {
	return Mount{Kind: KindChmod, Target: target, Perm: mode, HasPerm: true, MustExist: true}
}

// Layer attaches a mount that the caller made and keeps a descriptor of (fsmount(2)),
// at dir, a directory of the host that holds no symbolic link: in the sandbox's own copy
// of the host's mounts only, and before anything else, so that sources of binds and
// layers of overlays can lie in it. n is the descriptor's index in nsexec.Cmd.Layers.
func Layer(n int, dir string) Mount { return Mount{Kind: KindLayer, Layer: n, Target: dir} }

// RO returns a copy of m that is read-only.
func (m Mount) RO() Mount { m.ReadOnly = true; return m }

// Try returns a copy of m that is skipped where its source does not exist.
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
