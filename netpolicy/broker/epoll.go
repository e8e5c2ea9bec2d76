//go:build linux

package broker

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A registration is a socket in an epoll instance, under the caller's descriptor number.
type registration struct {
	instance sys.FD
	number   int
	ino      uint64 // of the socket
	event    unix.EpollEvent
}

// move replaces the old socket by the fresh one in the caller's epoll instances.
func (c *call) move(numbers, polls []int) syscall.Errno {
	if len(polls) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(c.old), &st); err != nil {
		return err.(syscall.Errno)
	}
	var found []registration
	var instances []sys.FD
	defer func() {
		for i := range instances {
			instances[i].Close()
		}
	}()
	for _, poll := range polls {
		instance, e := c.task.copy(poll)
		if e == syscall.EBADF {
			continue // closed meanwhile
		}
		if e != 0 {
			return e
		}
		instances = append(instances, instance)
		before := len(found)
		for _, r := range c.task.registrations(poll) {
			if r.ino == st.Ino && slices.Contains(numbers, r.number) {
				r.instance = instance
				found = append(found, r)
			}
		}
		if n := len(found); n == before || n > maxSame {
			return syscall.ENOBUFS // or nobody would hear of the connection
		}
	}
	if len(found) == 0 {
		return 0
	}
	return swap(found, c.old, c.fresh)
}

// maxInfo limits how much of an fdinfo file is read, in bytes: a registration has about 80.
const maxInfo = 16 << 20

// registrations returns the registrations in an epoll instance from /proc/pid/fdinfo.
func (t *task) registrations(poll int) (all []registration) {
	var b []byte
	for size := 16 << 10; size <= maxInfo; size *= 8 {
		if b = t.file("fdinfo/"+strconv.Itoa(poll), make([]byte, size)); len(b) < size {
			break
		}
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		// tfd: 5 events: 80000005 data: 7f… pos:0 ino:8f1 sdev:9
		if len(f) < 8 || string(f[0]) != "tfd:" || string(f[2]) != "events:" || string(f[4]) != "data:" {
			continue
		}
		number, err := strconv.Atoi(string(f[1]))
		events, err1 := strconv.ParseUint(string(f[3]), 16, 32)
		data, err2 := strconv.ParseUint(string(f[5]), 16, 64)
		ino, err3 := strconv.ParseUint(strings.TrimPrefix(string(f[7]), "ino:"), 16, 64)
		if err == nil && err1 == nil && err2 == nil && err3 == nil {
			all = append(all, registration{number: number, ino: ino, event: unix.EpollEvent{
				Events: uint32(events), Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32)),
			}})
		}
	}
	return all
}

// swap replaces old by fresh in epoll instances. The kernel identifies a registration by the open file and the number,
// which has to be the caller's number. So a thread that ends afterwards does it with a descriptor table of its own.
func swap(regs []registration, old, fresh sys.FD) (e syscall.Errno) {
	apart(func() { e = swapHere(regs, int(old), int(fresh)) })
	return e
}

// swapHere is swap on a thread that is not used any more. While a number means something
// else than to the rest of the program no signal interrupts it, so that the Go runtime, which
// has descriptors of its own, is not asked to do anything here.
func swapHere(regs []registration, old, fresh int) (e syscall.Errno) {
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return err.(syscall.Errno)
	}
	high := 0
	for _, r := range regs {
		high = max(high, r.number+1)
	}
	for i := range regs {
		// Where none of the numbers is.
		r := &regs[i]
		var in [3]int
		for k, fd := range [...]int{int(r.instance), old, fresh} {
			n, e := fcntl(sys.FD(fd), unix.F_DUPFD_CLOEXEC, high)
			if e != 0 {
				return e
			}
			in[k] = n
		}
		saved, missing := fcntl(sys.FD(r.number), unix.F_DUPFD_CLOEXEC, high)
		if missing != 0 {
			saved = -1
		}
		if e = swapOne(in[0], in[1], in[2], r.number, saved, &r.event); e != 0 {
			return e
		}
	}
	return 0
}

func swapOne(instance, old, fresh, number, saved int, event *unix.EpollEvent) (e syscall.Errno) {
	all, before := ^uint64(0), uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	_, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(old), uintptr(number), unix.O_CLOEXEC)
	if e == 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(instance), unix.EPOLL_CTL_DEL, uintptr(number), 0, 0, 0)
		_, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fresh), uintptr(number), unix.O_CLOEXEC)
	}
	if e == 0 {
		_, _, e = syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(instance), unix.EPOLL_CTL_ADD, uintptr(number), uintptr(unsafe.Pointer(event)), 0, 0)
	}
	if saved >= 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_DUP3, uintptr(saved), uintptr(number), unix.O_CLOEXEC)
	} else {
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(number), 0, 0)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return e
}
