//go:build linux

package tx

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// setTimes sets the modification times of objects that stay. It is not an error if somebody
// changes one meanwhile, or if it belongs to somebody else.
func (t *Tx) setTimes(after bool) error {
	for _, r := range slices.Backward(t.Journal.Times) {
		at := r.Before
		if after {
			at = r.After
		}
		dir, name := tree.SplitPath(string(r.Path))
		if r.Path == "." {
			dir, name = ".", "."
		}
		err := func() error {
			d, err := t.Doors.open(store.Place{Root: r.Root, Path: dir})
			if err != nil {
				return err
			}
			h, err := d.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			defer h.Close()
			st, err := h.Stat()
			if err != nil || st.Ino != r.Ino || Moment(st.Mtime) == at {
				return err
			}
			if !st.IsDir() && Moment(st.Mtime) != r.Before && Moment(st.Mtime) != r.After {
				return nil // somebody wrote to it
			}
			return h.SetMtime(unix.Timespec(at))
		}()
		switch err {
		case nil, unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.EPERM, unix.EACCES:
		default:
			return &fs.PathError{Op: "set time of", Path: filepath.Join(t.s.Roots[r.Root], string(r.Path)), Err: err}
		}
	}
	return nil
}

// setEmptied sets the attributes of the directories that were made again, the innermost
// first, which is their order in the journal.
func (t *Tx) setEmptied() error {
	for _, m := range t.Journal.Moves {
		if m.Dir == nil {
			continue
		}
		n := t.Journal.Nodes[m.First]
		err := func() error {
			if now, ok := t.look(store.Place{Root: n.Root, Path: string(n.Path)}); ok {
				n.Old.Ino, n.Old.Mode = now.Ino, now.Mode
			}
			if err := t.setAccess(n, m.Dir.Access); err != nil {
				return err
			}
			h, err := t.low[n.Root].Open(string(n.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			defer h.Close()
			return h.SetMtime(unix.Timespec(m.Dir.Mtime))
		}()
		if err != nil && err != unix.ENOENT && !tree.Swapped(err) && err != tree.ErrMoved {
			return &fs.PathError{Op: "set attributes of", Path: t.abs(n), Err: err}
		}
	}
	return nil
}

// of reports whether an object has this mode and owner.
func (a Access) of(st tree.Stat) bool {
	return a.Mode == st.Perm() && a.UID == st.UID && a.GID == st.GID
}

// setAttrs gives directories that stay the attributes from before or after the transaction.
func (t *Tx) setAttrs(after bool) error {
	for _, a := range slices.Backward(t.Journal.Attrs) {
		n := t.Journal.Nodes[a.Node]
		want := a.Before
		if after {
			want = a.After
		}
		if t.careful && !t.stillAs(n, a) {
			continue // somebody changed them since
		}
		if err := t.setAccess(n, want); err != nil && !(!after && (err == unix.ENOENT || err == tree.ErrMoved)) {
			return &fs.PathError{Op: "set attributes of", Path: t.abs(n), Err: err}
		}
	}
	return nil
}

// stillAs reports whether a directory has a mode and an owner that the journal knows.
func (t *Tx) stillAs(n Node, a Regard) bool {
	now, ok := t.look(store.Place{Root: n.Root, Path: string(n.Path)})
	return ok && (now.Perm() == a.Before.Mode || now.Perm() == a.After.Mode) &&
		(now.UID == a.Before.UID || now.UID == a.After.UID) && (now.GID == a.Before.GID || now.GID == a.After.GID)
}

// setAccess gives a directory that stays its mode, owner and extended attributes.
func (t *Tx) setAccess(n Node, want Access) error {
	at := store.Place{Root: n.Root, Path: string(n.Path)}
	top := t.low[n.Root]
	if !want.Keep && !tree.IsRoot() {
		// A directory that is closed to the caller would seem to have no attributes.
		h, err := t.Doors.openOne(at, 0o700)
		if err != nil {
			return err
		}
		h.Close()
	}
	d, err := top.OpenDirOrPath(at.Path)
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return err
	}
	if n.Path != "." && !n.Old.is(st) {
		return tree.ErrMoved
	}
	if !want.Keep {
		x := tree.Xattrs{}
		for name, v := range want.Xattrs {
			x[name] = string(v)
		}
		if st.Owned() && !tree.IsRoot() {
			x.SetOwner(0o700) // else the list would close it too early, see setMode
		}
		if err := d.GiveXattrs(x); err != nil {
			return err
		}
	}
	if st.UID != want.UID || st.GID != want.GID {
		if err := d.SetOwner(want.UID, want.GID); err != nil {
			return err
		}
		if st, err = d.Stat(); err != nil {
			return err
		}
	}
	if _, open := t.Doors.widened[at]; st.Perm() == want.Mode && !open {
		return nil
	}
	return t.Doors.setMode(at, d, st, want.Mode)
}
