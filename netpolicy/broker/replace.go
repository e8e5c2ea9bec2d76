package broker

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// replace puts the fresh socket where the caller's old one is: under all numbers that
// the caller has for it, and in all epoll instances in which it is.
func (c *connect) replace() syscall.Errno {
	if _, e := fcntl(c.fresh, unix.F_SETFL, c.flags); e != 0 {
		return e
	}
	numbers, polls, e := c.find()
	if e != 0 {
		return e
	}
	if e := c.move(numbers, polls); e != 0 {
		return e
	}
	for _, number := range numbers {
		if e := c.l.place(c.id, int(c.fresh), number, c.task.cloexec(number)); e != 0 {
			return e
		}
	}
	return 0
}

// find looks through the caller's descriptors for the old socket and for epoll instances, which
// only sockets that do not wait are in.
func (c *connect) find() (numbers, polls []int, e syscall.Errno) {
	dir := int(c.task.fds)
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return nil, nil, err.(syscall.Errno)
	}
	var entries [4096]byte
	for {
		// A signal for us, such as the Go runtime's, ends a reading early: what is behind it
		// comes with the next one, until there is nothing.
		n, err := unix.Getdents(dir, entries[:])
		if err != nil {
			return nil, nil, err.(syscall.Errno)
		}
		if n == 0 {
			return numbers, polls, 0
		}
		for b := entries[:n]; len(b) > 0; {
			size := binary.NativeEndian.Uint16(b[16:]) // struct linux_dirent64
			name := b[19:size]
			b = b[size:]
			number, err := strconv.Atoi(string(name[:bytes.IndexByte(name, 0)]))
			switch {
			case err != nil: // "." and ".."
			case number == c.number || c.same(number):
				numbers = append(numbers, number)
			case c.flags&unix.O_NONBLOCK != 0 && c.isPoll(name):
				polls = append(polls, number)
			}
		}
	}
}

// same reports whether a descriptor of the caller is the old socket.
func (c *connect) same(number int) bool {
	const file = 0 // KCMP_FILE
	order, _, e := syscall.RawSyscall6(unix.SYS_KCMP, c.b.pid, uintptr(c.task.pid), file, uintptr(c.old), uintptr(number), 0)
	return e == 0 && order == 0
}

// isPoll reports whether a descriptor, whose number ends with a zero, is an epoll instance.
func (c *connect) isPoll(name []byte) bool {
	var target [32]byte
	n, _, e := syscall.RawSyscall6(unix.SYS_READLINKAT, uintptr(c.task.fds), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&target)), uintptr(len(target)), 0, 0)
	return e == 0 && string(target[:n]) == "anon_inode:[eventpoll]"
}
