//go:build linux

package testenv

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// AnswerFUSE answers a request of the kernel's to a file system that has nothing but its root directory (linux/fuse.h).
// Nil: the request has no answer.
func AnswerFUSE(request []byte) []byte {
	var data []byte
	errno := int32(0)
	switch op := binary.NativeEndian.Uint32(request[4:]); op {
	case 2, 36, 42: // FUSE_FORGET, FUSE_INTERRUPT, FUSE_BATCH_FORGET
		return nil
	case 26: // FUSE_INIT
		data = make([]byte, 64)
		binary.NativeEndian.PutUint32(data, 7)
		binary.NativeEndian.PutUint32(data[4:], 31)
		binary.NativeEndian.PutUint32(data[20:], 4096)
	case 3: // FUSE_GETATTR
		data = make([]byte, 104)
		binary.NativeEndian.PutUint64(data[16:], 1)                  // the inode number
		binary.NativeEndian.PutUint32(data[76:], unix.S_IFDIR|0o755) // the mode
		binary.NativeEndian.PutUint32(data[80:], 2)                  // links
	case 17: // FUSE_STATFS
		data = make([]byte, 80)
	case 27, 28, 29, 34: // FUSE_OPENDIR, FUSE_READDIR, FUSE_RELEASEDIR, FUSE_ACCESS
		data = make([]byte, map[uint32]int{27: 16}[op])
	case 1: // FUSE_LOOKUP
		errno = -int32(unix.ENOENT)
	default:
		errno = -int32(unix.ENOSYS)
	}
	answer := binary.NativeEndian.AppendUint32(nil, uint32(16+len(data)))
	answer = binary.NativeEndian.AppendUint32(answer, uint32(errno))
	answer = append(answer, request[8:16]...)
	return append(answer, data...)
}

// MountFUSE mounts a file system of FUSE in this process's mount namespace. The descriptor is its server's.
func MountFUSE(dir string) (fd int, err error) {
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err = unix.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// A DeadFUSE is a mounted file system that has nothing but its root directory, and does not answer once Stop was
// called.
type DeadFUSE struct {
	Dir     string
	Asked   <-chan struct{} // closed when somebody waits for an answer after Stop
	stopped atomic.Bool
	end     func()
}

// NewDeadFUSE mounts a file system until the end of the test. Whoever waits for it then gets an error, so no process
// can stay behind. The test must not look at it itself, nor run beside others.
func NewDeadFUSE(t testing.TB) *DeadFUSE {
	t.Helper()
	NeedRoot(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		Skip(t, "fuse", err.Error())
	}
	f := &DeadFUSE{Dir: t.TempDir()}
	fd, err := MountFUSE(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	asked, ended := make(chan struct{}), make(chan struct{})
	f.Asked = asked
	go func() {
		defer close(ended)
		f.serve(fd, asked)
	}()
	f.end = sync.OnceFunc(func() {
		if err := unix.Unmount(f.Dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-ended
		_ = unix.Close(fd)
	})
	t.Cleanup(f.end)
	return f
}

// End unmounts the file system before the test ends. Whoever waits gets an error.
func (f *DeadFUSE) End() { f.end() }

// Stop must be called while nobody uses the file system.
func (f *DeadFUSE) Stop() { f.stopped.Store(true) }

// serve answers until the file system is unmounted. After Stop it leaves requests unread: SIGKILL ends who waits for
// one of those, but nothing ends who waits for the answer to one that was read.
func (f *DeadFUSE) serve(fd int, asked chan struct{}) {
	b := make([]byte, 1<<20)
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); err == unix.EINTR {
			continue
		}
		if p[0].Revents&unix.POLLERR != 0 {
			return
		}
		if f.stopped.Load() {
			close(asked)
			for p[0].Events = 0; p[0].Revents&unix.POLLERR == 0; { // until it is unmounted
				_, _ = unix.Poll(p, -1)
			}
			return
		}
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.ENODEV:
			return
		case err != nil || n < 40:
			continue
		}
		if answer := AnswerFUSE(b[:n]); answer != nil {
			_, _ = unix.Write(fd, answer)
		}
	}
}
