//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// A tmpfs that outlives the sandbox's mount namespace is held by a descriptor. Where we
// may not make one ourselves, this program, started again in namespaces of its own, makes
// it and sends us the descriptor.

// tmpfsName is argv[0] of this program for that.
const tmpfsName = "nsrun:tmpfs"

// tmpfsSocket is the descriptor that the mount is sent through.
const tmpfsSocket = 3

func init() {
	if len(os.Args) > 0 && os.Args[0] == tmpfsName && !secureexec.On() {
		os.Exit(sendTmpfs())
	}
}

// sendTmpfs returns the errno of what failed.
func sendTmpfs() int {
	fd, err := mountTmpfs()
	if err == nil {
		err = sys.FD(tmpfsSocket).Send([]byte{0}, fd)
	}
	if err == nil {
		return 0
	}
	var errno unix.Errno
	if errors.As(err, &errno) && errno < 256 {
		return int(errno)
	}
	return int(unix.EIO)
}

// mountTmpfs makes a tmpfs that is attached nowhere.
func mountTmpfs() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range [...][2]string{{"source", "nsrun"}, {"mode", "700"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// newTmpfs makes a tmpfs and returns its root. It fails with errors.ErrUnsupported where
// the upper directory of an overlay cannot be on one.
func newTmpfs() (_ *handle, err error) {
	var h *handle
	if fd, err := mountTmpfs(); err == nil {
		h = &handle{fd: fd}
	} else if h, err = tmpfsFromOutside(); err != nil {
		return nil, fmt.Errorf("make a tmpfs: %w", err)
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if !takesMarks(h) {
		return nil, fmt.Errorf("attributes on a tmpfs: %w", errors.ErrUnsupported) // before Linux 6.6
	}
	return h, nil
}

// tmpfsFromOutside has it made in a new user namespace, for those who may not do it here.
func tmpfsFromOutside() (*handle, error) {
	ours, theirs, err := sys.SeqPacket()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	socket := os.NewFile(uintptr(theirs), "socket")
	defer socket.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{tmpfsName}
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{socket} // tmpfsSocket
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		exit := new(exec.ExitError)
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			err = unix.Errno(exit.ExitCode())
		}
		return nil, bare(err)
	}
	return receive(ours)
}

// receive receives one descriptor that was sent already.
func receive(socket sys.FD) (*handle, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n := 0
	err := sys.Retry(func() (err error) {
		_, n, _, _, err = unix.Recvmsg(int(socket), data, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(list) != 1 {
		return nil, errors.Join(unix.EPROTO, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(unix.EPROTO, err)
	}
	return &handle{fd: fds[0]}, nil
}

// takesMarks reports whether overlayfs can put its marks on directories in dir.
func takesMarks(dir *handle) bool {
	const name = ".marks"
	if unix.Mkdirat(dir.fd, name, 0o700) != nil {
		return false
	}
	defer dir.unlink(name, unix.AT_REMOVEDIR)
	h, err := dir.openDir(name)
	if err != nil {
		return false
	}
	defer h.close()
	return unix.Fsetxattr(h.fd, overlayPrefix+"opaque", []byte("y"), 0) == nil
}
