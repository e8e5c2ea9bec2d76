//go:build linux

package overlay

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// removeDepth is how many descriptors a removal holds at most, more or less.
const removeDepth = 64

// removeTree removes name in the directory parent and everything below it. It
// follows no link and crosses no mount. Directories that were made unreadable
// are made readable first, and trees of any depth are removed with a bounded
// number of descriptors. That nothing is there is no error.
func removeTree(parent *handle, name string) error {
	for tries := 0; ; tries++ {
		err := parent.unlink(name, 0)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EISDIR {
			return err
		}
		r := remover{}
		if err = r.dir(parent, name, 0); !swapped(err) || tries == 100 {
			return err
		}
	}
}

// swapped reports that what was a directory a moment ago is none any more.
func swapped(err error) bool { return err == unix.ENOTDIR || err == unix.ELOOP }

// A remover removes one tree. What lies too deep is moved up into top, the
// tree's uppermost directory, and removed from there.
type remover struct {
	top   *handle
	moved int
}

func (r *remover) dir(parent *handle, name string, depth int) error {
	d, err := openForRemoval(parent, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	if depth == 0 {
		r.top = d
	}
	// Until it is empty: removing entries may hide others from the listing, and
	// deep directories may have been moved here. But somebody who makes files
	// as fast as they are removed is not waited for.
	for passes, moved := 0, r.moved; ; passes++ {
		names, err := d.names()
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		if r.moved != moved {
			passes, moved = 0, r.moved
		}
		if passes == 1000 {
			return unix.ENOTEMPTY
		}
		for _, n := range names {
			if err := r.entry(d, n, depth); err != nil {
				return err
			}
		}
	}
	err = parent.unlink(name, unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		err = nil
	}
	return err
}

func (r *remover) entry(d *handle, name string, depth int) error {
	err := d.unlink(name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR {
		return err
	}
	if depth < removeDepth {
		if err := r.dir(d, name, depth+1); !swapped(err) {
			return err
		}
		return nil // the next pass sees what it is now
	}
	// Moving a directory to another parent needs write access to it.
	sub, err := openForRemoval(d, name)
	if swapped(err) || err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	sub.close()
	for {
		r.moved++
		err := unix.Renameat2(d.fd, name, r.top.fd, ".deep-"+strconv.Itoa(r.moved), 0)
		switch err {
		case unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR, unix.EINTR: // the name is taken
		case unix.ENOENT:
			return nil
		default:
			return err
		}
	}
}

// openForRemoval opens a directory so that its entries can be removed.
func openForRemoval(parent *handle, name string) (*handle, error) {
	p, err := parent.open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer p.close()
	st, err := p.stat()
	if err != nil {
		return nil, err
	}
	if st.mode&0o700 != 0o700 {
		// Fails only where it is not ours; then opening tells.
		_ = p.chmod(0o700)
	}
	return p.openDir(".")
}
