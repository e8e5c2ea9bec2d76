//go:build linux

package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Preserve keeps the project's versions of modified text files, for CommitOptions.Prefer: Merge, and of git's index,
// which every commit merges. It keeps a file only if nobody else has changed it since the start of the command that
// first modified it. It also records which directories hold the changes, so that a commit notices if somebody replaces
// them. changes are those that Changes yielded when the command had ended. Other files that are not text, or larger
// than 1 MiB, are omitted.
func (s *Session) Preserve(ctx context.Context, changes []Change) error {
	const op = "keep versions"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	var b *kept
	var err error
	var added Change // the directory that was added last
	for _, c := range changes {
		old := c.Kind == Modified || c.Kind == TypeChanged
		if dir, _ := tree.SplitPath(c.Path); c.Path == "." || !old && dir == "." {
			continue
		}
		if c.Kind == Added {
			if added.Root == c.Root && added.Path != "" && tree.Under(c.Path, added.Path) {
				continue
			}
			if c.Mode.IsDir() {
				added = c
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if b == nil {
			if b, err = s.openKept(); err != nil {
				return &Error{Op: op, Path: s.path, Err: err}
			}
			defer b.close()
		}
		if err := b.keep(s, c, old); err != nil {
			return &Error{Op: op, Path: s.path, Err: err}
		}
	}
	if b == nil && len(changes) > 0 { // an account in which nothing is: the session made all that it has
		if err := s.dir.Mkdir(baseName); err != nil && err != unix.EEXIST {
			return &Error{Op: op, Path: s.path, Err: err}
		}
	}
	return nil
}

func (s *Session) openKept() (_ *kept, err error) {
	if err := s.dir.Mkdir(baseName); err != nil && err != unix.EEXIST {
		return nil, err
	}
	b := &kept{known: map[store.Place]baseEntry{}, dirs: map[store.Place]uint64{}, next: 1}
	b.arrived = &arrivals{dirs: b.dirs, touch: func(at store.Place, st tree.Stat) bool { return b.touched(s, at, st) }, sides: b.sidesOf(s)}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.dir, err = s.dir.OpenDir(baseName); err != nil {
		return nil, err
	}
	if err := b.read(len(s.roots)); err != nil {
		return nil, err
	}
	b.index, err = b.dir.Append(indexName)
	return b, err
}

// keep stores the project's version of one file, the first time; old says that the file was there before.
func (b *kept) keep(s *Session, c Change, old bool) error {
	root := slices.IndexFunc(s.roots, func(r Root) bool { return r.Path == c.Root })
	if root < 0 {
		return fmt.Errorf("%s is not a root of the session", escape.Quote(c.Root))
	}
	at := store.Place{Root: root, Path: c.Path}
	index := s.gitFileAt(at) == gitIndex
	if b.known[at].File > 0 {
		return nil
	}
	if s.meta.On == "" { // else the layers below are merged, and a commit of one gives directories other numbers
		if err := b.keepDirs(at); err != nil {
			return err
		}
	}
	if !old {
		return nil
	}
	if b.known[at].Path == "" {
		if err := b.write(baseEntry{Root: root, Path: store.Text(c.Path)}); err != nil {
			return err
		}
	}
	most := int64(baseMost)
	if index {
		most = tx.IndexMost
	} else if b.total+c.OldSize > baseMostAll {
		return nil
	}
	if c.Aspects&Content == 0 || !c.Mode.IsRegular() || !c.OldMode.IsRegular() || c.OldSize > most {
		return nil
	}
	data, st, err := b.before(s, c, at, index)
	if err != nil || data == nil {
		return err
	}
	e := baseEntry{Root: root, Path: store.Text(c.Path), Size: int64(len(data)), Mode: st.Mode, UID: st.UID, GID: st.GID}
	out, err := (*tree.Handle)(nil), error(unix.EEXIST)
	for ; err == unix.EEXIST; b.next++ { // the file of an entry that was not written: the disk was full
		e.File = b.next
		out, err = b.dir.Create(strconv.Itoa(e.File))
	}
	if err != nil {
		return err
	}
	defer out.Close()
	if err := tree.WriteAll(out, data); err != nil {
		return err
	}
	b.total += e.Size
	return b.write(e)
}

// before reads the project's version on which the session's is based. Nil: it is not known, or must not be kept.
func (b *kept) before(s *Session, c Change, at store.Place, index bool) (data []byte, st tree.Stat, err error) {
	if index {
		if data := s.heldIndex(at); data != nil {
			return data, st, nil
		}
	}
	f, err := s.File(c, Before)
	if err != nil {
		if errors.Is(err, ErrMoved) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, st, nil // somebody is changing it: then it is not what the session had
		}
		return nil, st, err
	}
	defer f.Close()
	h := &tree.Handle{FD: sys.FD(f.Fd())}
	st, err = h.Stat()
	if err != nil || b.touched(s, at, st) || b.arrived.above(at) {
		return nil, st, err
	}
	data, err = io.ReadAll(io.LimitReader(f, c.OldSize+1))
	if err != nil {
		return nil, st, err
	}
	if now, err := h.Stat(); err != nil || !now.Same(st) || now.Ctime != st.Ctime {
		return nil, st, err
	}
	if index && !isIndex(data) || !index && !textdiff.IsText(data) {
		return nil, st, nil
	}
	return data, st, nil
}

// write adds an entry to the index. The last entry for a path counts.
func (b *kept) write(e baseEntry) error {
	if err := b.writeLine(e); err != nil {
		return err
	}
	b.known[store.Place{Root: e.Root, Path: string(e.Path)}] = e
	return nil
}

func (b *kept) writeLine(e baseEntry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return tree.WriteAll(b.index, slices.Concat([]byte{'\n'}, line, []byte{'\n'})) // the line before may be cut off
}

// keepDirs records the project's directories above a place, those that were there when the session began.
func (b *kept) keepDirs(at store.Place) error {
	for {
		at.Path, _ = tree.SplitPath(at.Path)
		if _, ok := b.dirs[at]; ok || at.Path == "." {
			return nil
		}
		if b.arrived.directory(at) {
			continue
		}
		_, low, err := b.arrived.sides(at.Root)
		if err != nil {
			return err
		}
		d, err := low.At(at.Path)
		if err != nil {
			return nil // somebody is changing it
		}
		st, err := d.Stat()
		d.Close()
		if err != nil {
			return err
		}
		if err := b.writeLine(baseEntry{Root: at.Root, Path: store.Text(at.Path), Dir: st.Ino}); err != nil {
			return err
		}
		b.dirs[at] = st.Ino
	}
}

func (b *kept) sidesOf(s *Session) func(root int) (up, low tree.Tree, err error) {
	b.sides = make([]openSides, len(s.roots))
	return func(root int) (up, low tree.Tree, err error) {
		side := &b.sides[root]
		if _, err := side.open(s, root); err != nil {
			return nil, nil, err
		}
		return side.up, side.low, nil
	}
}

// touched reports whether the project's object was changed since the session began. Changes by the session itself do
// not count, nor do those that the command saw when it began.
func (b *kept) touched(s *Session, at store.Place, st tree.Stat) bool {
	return st.Ctime > s.meta.Began() && !b.caused(s, at, st.Ctime) && !s.saw(at, st.Ctime)
}

// caused reports whether nsrun itself caused a ctime in the project.
func (b *kept) caused(s *Session, at store.Place, ctime int64) bool {
	if b.settled == nil {
		b.settled = make(map[store.Place]int64, len(s.meta.Settled))
		for _, st := range slices.Backward(s.meta.Settled) { // the first one of a place counts
			b.settled[store.Place{Root: st.Root, Path: string(st.Path)}] = st.Lower
		}
	}
	lower, ok := b.settled[at]
	return ok && lower == ctime
}
