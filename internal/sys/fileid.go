//go:build linux

package sys

import "golang.org/x/sys/unix"

// A FileID tells one open file from another. The zero FileID is none.
type FileID struct{ dev, ino uint64 }

// ID is the identity of the file that has this descriptor now. For what is kept between two calls of a program it has
// to be checked: the program may have closed all descriptors that it does not know (close_range(2)), and have opened
// others with the same numbers.
func (f FD) ID() (id FileID) {
	var st unix.Stat_t
	if f >= 0 && Retry(func() error { return unix.Fstat(int(f), &st) }) == nil {
		id = FileID{dev: st.Dev, ino: st.Ino}
	}
	return id
}

// Forget makes f None without closing it, if the file with this descriptor is not the one that it was made for.
func (f *FD) Forget(was FileID) (forgotten bool) {
	if *f < 0 || f.ID() == was {
		return false
	}
	*f = None
	return true
}
