//go:build linux

package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A descriptor keeps the tmpfs when the sandbox's mount namespace is gone. A caller who may not make a tmpfs starts a
// process in namespaces of its own, which makes one and sends the descriptor.

// tmpfsOptions are its options, see tmpfs(5).
var tmpfsOptions = [...][2]string{{"source", "nsrun"}, {"mode", "700"}}

// mountTmpfs makes a tmpfs that is attached nowhere.
func mountTmpfs() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range tmpfsOptions {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// NewTmpfs makes a tmpfs, and returns its root. With upper, it is for the upper directory of an overlay, and if it
// cannot hold that, the error is errors.ErrUnsupported.
func NewTmpfs(upper bool) (_ *tree.Handle, err error) {
	var h *tree.Handle
	if fd, err := mountTmpfs(); err == nil {
		h = &tree.Handle{FD: sys.FD(fd)}
	} else if h, err = tmpfsFromOutside(); err != nil {
		return nil, fmt.Errorf("make a tmpfs: %w", err)
	}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if upper && !tree.TakesMarks(h) {
		return nil, features.Lacks(features.TmpfsAttributes, unix.EOPNOTSUPP)
	}
	return h, nil
}

// tmpfsFromOutside has a process in a new user namespace make the tmpfs.
func tmpfsFromOutside() (h *tree.Handle, err error) {
	b := prog.New(prog.Native())
	b.SetNFds(1)
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	procDir := b.OpenProc()
	b.WriteIDMaps(procDir, b.OneID(0, uint32(os.Geteuid())), b.OneID(0, uint32(os.Getegid())))
	fs, root := b.Slot(), b.Slot()
	b.Call(prog.SysFsopen, b.String("tmpfs"), prog.Int(unix.FSOPEN_CLOEXEC)).To(fs)
	for _, o := range tmpfsOptions {
		b.Call(prog.SysFsconfig, fs.Arg(), prog.Int(unix.FSCONFIG_SET_STRING), b.String(o[0]), b.String(o[1]), prog.Int(0))
	}
	b.Call(prog.SysFsconfig, fs.Arg(), prog.Int(unix.FSCONFIG_CMD_CREATE), prog.Null, prog.Null, prog.Int(0))
	b.Call(prog.SysFsmount, fs.Arg(), prog.Int(unix.FSMOUNT_CLOEXEC), prog.Int(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)).To(root)
	b.SendFiles(prog.Int(reexec.ControlFd), prog.Int(unix.MSG_NOSIGNAL), []prog.Slot{root})
	b.Call(prog.SysExitGroup, prog.Int(0))
	err = reexec.Perform(b.Program(), func(sock int) error {
		fd, err := sys.ReceiveFD(sys.FD(sock))
		if err == nil {
			h = &tree.Handle{FD: fd}
		}
		return err
	})
	return h, err
}
