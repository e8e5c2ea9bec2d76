//go:build linux

package nsexec

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
)

// With Options.LeaveMounts this process holds the mount namespace of the sandbox by a descriptor. Then the kernel
// unmounts nothing when PID 1 ends, for which Wait would have to wait, but when the descriptor is closed.

func (c *Cmd) leavesMounts() bool {
	return c.opt.LeaveMounts && c.opt.Confinement == nil && !c.opt.Inherit && !c.opt.Bubblewrap
}

// leaveMounts appends the socket over which the sandbox sends the descriptor to the command's files, and returns this
// process's end.
func (c *Cmd) leaveMounts(files []*os.File) (ours sys.FD, _ []*os.File, err error) {
	if !c.leavesMounts() {
		return sys.None, files, nil
	}
	ours, theirs, err := sys.SeqPacket()
	if err != nil {
		return sys.None, nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	f := os.NewFile(uintptr(theirs), "mounts")
	c.childFiles = append(c.childFiles, f)
	return ours, append(files, f), nil
}

// sendMounts adds the step that sends the descriptor, in the new mount namespace that still shows the host's /proc. If
// that is impossible, PID 1 is the last to hold the namespace.
func (c *Cmd) sendMounts(b *prog.Builder, status int) {
	if !c.leavesMounts() {
		return
	}
	b.Step("start", "mounts")
	namespace, sock := b.Slot(), prog.Int(status-1)
	none := b.Call(prog.SysOpenat, prog.AtCwd, b.String("/proc/self/ns/mnt"), b.Open(prog.CloseOnExec), prog.Int(0)).
		To(namespace).TolerateAny().OnTolerated()
	b.SendFiles(sock, prog.Int(unix.MSG_NOSIGNAL), []prog.Slot{namespace}).TolerateAny()
	b.Close(namespace)
	b.Here(none)
	b.Call(prog.SysClose, sock)
}

// receiveMounts returns the descriptor that the sandbox sent; nil: it sent none.
func receiveMounts(ours sys.FD) *os.File {
	if ours == sys.None {
		return nil
	}
	files := lastFiles(ours)
	if len(files) != 1 {
		closeFiles(files)
		return nil
	}
	return files[0]
}

// unmount has the kernel unmount what is left in the sandbox, if this process holds it, in the background.
func (c *Cmd) unmount() {
	if c.left == nil {
		return
	}
	left, unmounted := c.left, make(chan struct{})
	c.left, c.opt.Unmounted = nil, unmounted
	go func() {
		_ = left.Close()
		close(unmounted)
	}()
}
