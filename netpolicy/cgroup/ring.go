//go:build linux

package cgroup

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A ring is a map of kind RINGBUF: the kernel writes records, one reader takes them. Its memory is a page with how far
// the reader is, one with how far the writers are, and the records, twice one after the other, so that none is cut.
type ring struct {
	file     *os.File // for waiting
	conn     syscall.RawConn
	consumer []byte
	producer []byte
	size     uint64
}

func newRing(m bpfMap, size uint32) (*ring, error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(int(m.fd), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	producer, err := unix.Mmap(int(m.fd), int64(page), page+2*int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(consumer)
		return nil, err
	}
	r := &ring{consumer: consumer, producer: producer, size: uint64(size)}
	if err := r.open(m.fd); err != nil {
		r.unmap()
		return nil, err
	}
	return r, nil
}

// open makes a file of a copy of the map's descriptor.
func (r *ring) open(of sys.FD) error {
	fd, err := unix.FcntlInt(uintptr(of), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return err
	}
	r.file = os.NewFile(uintptr(fd), "ring")
	if r.conn, err = r.file.SyscallConn(); err != nil {
		_ = r.file.Close()
	}
	return err
}

func (r *ring) unmap() {
	_ = unix.Munmap(r.consumer)
	_ = unix.Munmap(r.producer)
}

// wait calls f until the ring is closed: at once, and whenever there may be more.
func (r *ring) wait(f func()) {
	_ = r.conn.Read(func(uintptr) bool {
		f()
		return false
	})
}

// take hands out the records that are there.
func (r *ring) take(f func(record []byte)) {
	const (
		busy, discarded = 1 << 31, 1 << 30
		header          = 8
	)
	at := (*uint64)(unsafe.Pointer(&r.consumer[0]))
	end := (*uint64)(unsafe.Pointer(&r.producer[0]))
	records := r.producer[os.Getpagesize():]
	for pos := *at; pos < atomic.LoadUint64(end); atomic.StoreUint64(at, pos) {
		offset := pos & (r.size - 1)
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&records[offset])))
		if length&busy != 0 {
			return
		}
		n := uint64(length &^ (busy | discarded))
		if length&discarded == 0 {
			f(records[offset+header : offset+header+n])
		}
		pos += header + (n+7)&^7
	}
}
