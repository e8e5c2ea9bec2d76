//go:build linux

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

// replace puts the fresh socket in the place of the caller's old one: under all its
// descriptor numbers, and in all its epoll instances.
func (c *call) replace() syscall.Errno {
	if _, e := fcntl(c.fresh, unix.F_SETFL, c.flags); e != 0 {
		return e
	}
	if e := c.task.look(); e != 0 {
		return e
	}
	if !c.l.Valid(c.id) {
		return syscall.ESRCH
	}
	numbers, polls, e := c.find()
	if e != 0 {
		return e
	}
	if e := c.move(numbers, polls); e != 0 {
		return e
	}
	for _, number := range numbers {
		if !c.same(number) {
			// Another thread closed it, and the number is something else now.
			if number == c.number {
				return syscall.EBADF
			}
			continue
		}
		if e := c.l.Place(c.id, int(c.fresh), number, c.task.cloexec(number)); e != 0 {
			return e
		}
	}
	return 0
}

// find searches the caller's descriptors for the old socket, and for epoll instances in which it is registered.
func (c *call) find() (numbers, polls []int, e syscall.Errno) {
	var small [64]int
	others := small[:0]
	numbers, others, ok := c.try(others)
	if !ok {
		if numbers, others, e = c.list(others[:0]); e != 0 {
			return nil, nil, e
		}
	}
	if !slices.Contains(numbers, c.number) {
		return nil, nil, syscall.EBADF // another thread has closed it
	}
	polls, e = c.polls(others, numbers)
	return numbers, polls, e
}

// try finds the caller's descriptors by trying the lowest numbers, which is faster than listing them if they are few
// and low. It reports whether it found all, which it cannot know if other threads may open and close some meanwhile.
func (c *call) try(others []int) (numbers, rest []int, ok bool) {
	left := c.task.open()
	if left > cap(others) || !c.b.kcmp || !c.task.alone() {
		return nil, others, false
	}
	for number, most := 0, 2*left; left > 0; number++ {
		if number > most {
			return nil, others, false
		}
		order, e := c.compare(kcmpFile, uintptr(number))
		switch {
		case e == syscall.EBADF:
			continue
		case e != 0:
			return nil, others, false
		case order == 0:
			numbers = append(numbers, number)
		default:
			others = append(others, number)
		}
		left--
	}
	return numbers, others, len(numbers) > 0
}

// list is try for any number of descriptors.
func (c *call) list(others []int) (numbers, rest []int, e syscall.Errno) {
	dir := int(c.task.fds)
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return nil, nil, err.(syscall.Errno)
	}
	var entries [4096]byte
	for {
		// A signal for this process, such as the Go runtime's, ends a read early. The next read
		// returns the rest, until there is nothing.
		n, err := unix.Getdents(dir, entries[:])
		if err != nil {
			return nil, nil, err.(syscall.Errno)
		}
		if n == 0 {
			return numbers, others, 0
		}
		for b := entries[:n]; len(b) > 0; {
			size := binary.NativeEndian.Uint16(b[16:]) // struct linux_dirent64
			name := b[19:size]
			b = b[size:]
			number, err := strconv.Atoi(string(name[:bytes.IndexByte(name, 0)]))
			switch {
			case err != nil: // "." and ".."
			case c.gone(len(others)):
				return nil, nil, syscall.ESRCH
			case number == c.number || c.same(number):
				if len(numbers) == maxSame {
					return nil, nil, syscall.EMFILE
				}
				numbers = append(numbers, number)
			default:
				others = append(others, number)
			}
		}
	}
}

// maxSame limits the numbers of a socket, its epoll instances, and the registrations of a
// socket and of a number in one. Only an attacker has more.
const maxSame = 64

// gone reports whether nobody waits for the answer any more. A caller can have very many
// descriptors, so a search through them asks now and then.
func (c *call) gone(step int) bool { return step%256 == 255 && (c.b.ending() || !c.l.Valid(c.id)) }

// same reports whether a descriptor of the caller is the old socket.
func (c *call) same(number int) bool {
	if !c.b.kcmp {
		return c.task.socketInode(number) == inode(c.old)
	}
	order, e := c.compare(kcmpFile, uintptr(number))
	return e == 0 && order == 0
}

// polls finds the epoll instances among the caller's descriptors that have the old socket under
// one of its numbers, each once.
func (c *call) polls(among, numbers []int) (polls []int, e syscall.Errno) {
	for i, poll := range among {
		if c.gone(i) {
			return nil, syscall.ESRCH
		}
		known, e := c.registered(poll, numbers)
		if e != 0 {
			return nil, e
		}
		same := c.task.same
		if !c.b.kcmp {
			same = c.task.shareFlags
		}
		if !known || slices.ContainsFunc(polls, func(other int) bool { return same(poll, other) }) {
			continue
		}
		if len(polls) == maxSame {
			return nil, syscall.EMFILE
		}
		polls = append(polls, poll)
	}
	return polls, 0
}

// registered reports whether a descriptor of the caller is an epoll instance that has the old
// socket under one of the numbers.
func (c *call) registered(poll int, numbers []int) (bool, syscall.Errno) {
	if !c.b.kcmp {
		return c.listed(poll, numbers), 0
	}
	for _, number := range numbers {
		slot := struct{ poll, number, skip uint32 }{uint32(poll), uint32(number), 0}
		// An earlier file with that number may still be registered.
		for ; ; slot.skip++ {
			order, e := c.compare(kcmpRegistration, uintptr(unsafe.Pointer(&slot)))
			if e == syscall.ENOENT {
				break
			}
			if e != 0 {
				return false, 0 // it is not an epoll instance, or closed by now
			}
			if order == 0 {
				return true, 0
			}
			if slot.skip == maxSame {
				return false, syscall.EMFILE
			}
		}
	}
	return false, 0
}

// See kcmp(2); kcmpRegistration is KCMP_EPOLL_TFD, Linux 4.13.
const (
	kcmpFile         = 0
	kcmpRegistration = 7
)

// compare compares the old socket with a file of the caller, see kcmp(2).
//
//go:uintptrescapes
func (c *call) compare(kind, with uintptr) (order uintptr, e syscall.Errno) {
	order, _, e = syscall.RawSyscall6(unix.SYS_KCMP, c.b.pid, uintptr(c.task.pid), kind, uintptr(c.old), with, 0)
	return order, e
}
