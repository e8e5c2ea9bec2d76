//go:build linux

package tree

import "golang.org/x/sys/unix"

// openFile opens the regular file name in the directory h for reading, if it is still the object that want describes.
// It never blocks on a FIFO or a lease that somebody put there. If unlock is not nil, and the caller owns the file but
// cannot read it, openFile calls unlock and then makes the file readable while it opens it.
func (h *Handle) openFile(name string, want Stat, unlock func(want Stat) error) (*Handle, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	f, err := h.Open(name, flags|unix.O_NOATIME)
	if err == unix.EPERM {
		f, err = h.Open(name, flags) // O_NOATIME is for the owner only
	}
	if err == unix.EACCES && unlock != nil && want.Owned() {
		var p *Handle
		if p, err = h.Open(name, unix.O_PATH|unix.O_NOFOLLOW); err != nil {
			return nil, err
		}
		defer p.Close()
		if st, err := p.Stat(); err != nil || !st.Same(want) {
			return nil, OrMoved(err)
		}
		if err := unlock(want); err != nil {
			return nil, err
		}
		if err := p.Chmod(want.Perm() | 0o400); err != nil {
			return nil, err
		}
		if f, err = h.Open(name, flags); err == nil {
			err = f.keepXattrs()
		}
		if err2 := p.Chmod(want.Perm()); err == nil {
			err = err2
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		if err == unix.ELOOP || err == unix.ENOENT || err == unix.ENXIO {
			err = OrMoved(nil)
		}
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || !st.Same(want) {
		f.Close()
		return nil, OrMoved(err)
	}
	return f, nil
}
