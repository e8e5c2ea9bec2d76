//go:build linux

package tx

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// checkNumbers fails before anything is moved.
func (t *Tx) checkNumbers() error {
	checked := map[*tree.Handle]bool{}
	for _, m := range t.Journal.Moves {
		st := t.Stage(m)
		if st == nil || checked[st] {
			continue
		}
		checked[st] = true
		if kept, err := KeepsNumbers(st); err != nil || !kept {
			n := t.Journal.Nodes[m.First]
			if err == nil {
				err = tree.ErrNumbers
			}
			return &fs.PathError{Op: "commit to", Path: t.s.Roots[n.Root], Err: err}
		}
	}
	return nil
}

// KeepsNumbers reports whether a directory keeps its number when it is renamed. It is a variable for tests.
var KeepsNumbers = func(in *tree.Handle) (bool, error) {
	typ, err := tree.FSType(in)
	if err != nil || typ != unix.FUSE_SUPER_MAGIC { // all others do
		return err == nil, err
	}
	return numberStays(in)
}

// numberStays tries it in a directory.
func numberStays(in *tree.Handle) (bool, error) {
	const before, after = "numbers", "numbers.moved"
	if err := in.Mkdir(before); err != nil {
		return false, err
	}
	name := before
	defer func() { _ = in.Unlink(name, unix.AT_REMOVEDIR) }()
	number := func() (uint64, error) {
		var st unix.Statx_t // the kernel would remember the number for a while
		err := sys.Statx(int(in.FD), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_FORCE_SYNC, unix.STATX_INO, &st)
		return st.Ino, err
	}
	was, err := number()
	if err != nil {
		return false, err
	}
	if err := in.Rename(before, after, 0); err != nil {
		return false, err
	}
	name = after
	now, err := number()
	return was == now, err
}
