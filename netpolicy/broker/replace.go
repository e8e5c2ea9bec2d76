package broker

import (
	"bytes"
	"encoding/binary"
	"slices"
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

// find looks through the caller's descriptors for the old socket, and for epoll instances in
// which it is registered: a socket that waits is in none.
func (c *connect) find() (numbers, polls []int, e syscall.Errno) {
	dir := int(c.task.fds)
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return nil, nil, err.(syscall.Errno)
	}
	var entries [4096]byte
	var small [64]int
	others := small[:0]
	for {
		// A signal for us, such as the Go runtime's, ends a reading early: what is behind it
		// comes with the next one, until there is nothing.
		n, err := unix.Getdents(dir, entries[:])
		if err != nil {
			return nil, nil, err.(syscall.Errno)
		}
		if n == 0 {
			break
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
			default:
				others = append(others, number)
			}
		}
	}
	if !slices.Contains(numbers, c.number) {
		return nil, nil, syscall.EBADF // another thread has closed it
	}
	if c.flags&unix.O_NONBLOCK == 0 {
		return numbers, nil, 0
	}
	for _, other := range others {
		if slices.ContainsFunc(numbers, func(number int) bool { return c.registered(other, number) }) {
			polls = append(polls, other)
		}
	}
	return numbers, polls, 0
}

// same reports whether a descriptor of the caller is the old socket.
func (c *connect) same(number int) bool {
	const file = 0 // KCMP_FILE
	order, e := c.compare(file, uintptr(number))
	return e == 0 && order == 0
}

// registered reports whether a descriptor of the caller is an epoll instance that knows the
// old socket by a number.
func (c *connect) registered(poll, number int) bool {
	const registration = 7 // KCMP_EPOLL_TFD, Linux 4.13
	slot := struct{ poll, number, skip uint32 }{uint32(poll), uint32(number), 0}
	for ; ; slot.skip++ { // what had the number before may still be there
		order, e := c.compare(registration, uintptr(unsafe.Pointer(&slot)))
		if e != 0 || order == 0 {
			return e == 0
		}
	}
}

// compare compares the old socket with something of the caller's, see kcmp(2).
//
//go:uintptrescapes
func (c *connect) compare(kind, with uintptr) (order uintptr, e syscall.Errno) {
	order, _, e = syscall.RawSyscall6(unix.SYS_KCMP, c.b.pid, uintptr(c.task.pid), kind, uintptr(c.old), with, 0)
	return order, e
}
