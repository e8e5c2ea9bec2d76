//go:build linux

package broker

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// pidfdThread is PIDFD_THREAD, Linux 6.9.
const pidfdThread = unix.O_EXCL

// A task is a thread that waits in a system call.
type task struct {
	pid   uint32
	pidfd sys.FD

	// What look opens.
	proc  sys.FD // its directory in /proc
	fds   sys.FD // its descriptors, in there
	group sys.FD // all threads of its process, in there

	info   sys.FD // what is known of a descriptor of that number, whatever it is at the time
	infoOf int
}

// openTask opens a caller. The caller may have ended, and the number may be another process, so
// check afterwards that the notification is still valid.
func openTask(pid uint32) (*task, syscall.Errno) {
	t := &task{pid: pid, pidfd: sys.None, proc: sys.None, fds: sys.None, group: sys.None, info: sys.None}
	fd, err := unix.PidfdOpen(int(pid), pidfdThread)
	if err == unix.EINVAL {
		if e := t.look(); e != 0 {
			return nil, e
		}
		fd, err = unix.PidfdOpen(t.leader(), 0)
	}
	if err != nil {
		t.close()
		return nil, syscall.ESRCH
	}
	t.pidfd = sys.FD(fd)
	return t, 0
}

// look opens the task's directory in /proc. Check the notification afterwards, as after openTask.
func (t *task) look() syscall.Errno {
	if t.group != sys.None {
		return 0
	}
	dir := unix.AT_FDCWD
	for _, d := range [...]struct {
		fd    *sys.FD
		name  string
		flags int
	}{
		{&t.proc, "/proc/" + strconv.FormatUint(uint64(t.pid), 10), unix.O_PATH},
		{&t.fds, "fd", unix.O_RDONLY},
		{&t.group, "task", unix.O_PATH},
	} {
		fd, err := unix.Openat(dir, d.name, d.flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.forget()
			return syscall.ESRCH
		}
		*d.fd = sys.FD(fd)
		dir = int(t.proc)
	}
	return 0
}

// forget closes what look has opened.
func (t *task) forget() {
	t.proc.Close()
	t.fds.Close()
	t.group.Close()
	t.info.Close()
}

func (t *task) close() {
	t.pidfd.Close()
	t.forget()
}

// copy is a copy of a descriptor of the task.
func (t *task) copy(number int) (sys.FD, syscall.Errno) {
	fd, _, e := syscall.RawSyscall(unix.SYS_PIDFD_GETFD, uintptr(t.pidfd), uintptr(number), 0)
	if e != 0 {
		return sys.None, e
	}
	return sys.FD(fd), 0
}

// same reports whether two descriptors of the task are one open file.
func (t *task) same(a, b int) bool {
	order, _, e := syscall.RawSyscall6(unix.SYS_KCMP, uintptr(t.pid), uintptr(t.pid), kcmpFile, uintptr(a), uintptr(b), 0)
	return e == 0 && order == 0
}

// file reads a small file of the task's directory in /proc into b.
func (t *task) file(name string, b []byte) []byte {
	fd, err := unix.Openat(int(t.proc), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := sys.FD(fd)
	defer f.Close()
	n := 0
	for n < len(b) {
		k, err := f.Read(b[n:])
		if err != nil || k == 0 {
			break
		}
		n += k
	}
	return b[:n]
}

// leader is the id of the task's process.
func (t *task) leader() int {
	var b [4096]byte
	return int(notify.Number(t.file("status", b[:]), "Tgid:", 10))
}

// signalled reports whether a signal waits that the task has a handler for and does not block. If the task has ended,
// it may be about another one.
func (t *task) signalled() bool {
	status, err := sys.Head(notify.Proc(t.pid, "status"), make([]byte, 4096))
	return err == nil && notify.Signalled(status)
}

// open is how many descriptors the task has. 0: unknown, before Linux 6.2.
func (t *task) open() int {
	var st unix.Stat_t
	if unix.Fstat(int(t.fds), &st) != nil {
		return 0
	}
	return int(st.Size)
}

// alone reports whether the task is the only thread of its process. Then only a process that
// shares its descriptors (CLONE_FILES) can change them while it waits.
func (t *task) alone() bool {
	var st unix.Stat_t
	return unix.Fstat(int(t.group), &st) == nil && st.Nlink == 2+1
}

// cloexec reports whether a descriptor of the task is closed by execve(2).
func (t *task) cloexec(fd int) bool {
	var b [512]byte
	if n := t.readInfo(fd, b[:]); n > 0 {
		return notify.Number(b[:n], "flags:", 8)&unix.O_CLOEXEC != 0
	}
	// The file may belong to an earlier thread with the same number.
	t.info.Close()
	t.infoOf = fd
	info, err := unix.Openat(int(t.proc), "fdinfo/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	t.info = sys.FD(info)
	return notify.Number(b[:t.readInfo(fd, b[:])], "flags:", 8)&unix.O_CLOEXEC != 0
}

// readInfo reads the file that was opened last, if it is about this descriptor.
func (t *task) readInfo(fd int, b []byte) int {
	if t.info == sys.None || t.infoOf != fd {
		return 0
	}
	n, err := unix.Pread(int(t.info), b, 0)
	if err != nil {
		return 0
	}
	return n
}
