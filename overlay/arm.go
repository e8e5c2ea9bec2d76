//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// arm makes the place for the command's writes.
func (s *Session) arm() error {
	memory := s.meta.Engine == store.Tmpfs
	if s.meta.Engine == store.Copy {
		typ, err := tree.FSType(s.dir)
		if err != nil {
			return err
		}
		memory = !tree.HoldsModes(typ)
	}
	if memory {
		h, err := store.NewTmpfs(s.meta.Engine == store.Tmpfs)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.mem = h
		s.mu.Unlock()
		if err := s.dir.Mkdir(store.MemName); err != nil && err != unix.EEXIST {
			return err
		}
	}
	for _, name := range []string{"upper", "work"} {
		if err := s.makeSub(name); err != nil {
			return err
		}
	}
	return nil
}

// makeSub makes a directory in the session's; a Spare has it already.
func (s *Session) makeSub(name string) error {
	err := s.area().Mkdir(name)
	if err == unix.EEXIST && s.reused {
		return nil
	}
	return err
}

func (s *Session) makeCopy(ctx context.Context, i int) error {
	low, err := s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	from, err := s.lowerTree(i, low)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := s.area().Mkdir(store.UpperName(i)); err != nil {
		return err
	}
	top, err := s.area().OpenDir(store.UpperName(i))
	if err != nil {
		return err
	}
	defer top.Close()
	room, err := makeRoom(ctx, top)
	if err != nil {
		return err
	}
	rec, err := tree.MakeMirror(room, from, top)
	if err != nil {
		return err
	}
	if s.copies == nil {
		s.copies = make([]tree.Record, len(s.meta.Roots))
	}
	s.copies[i] = rec
	return s.await(rec.Own.Stat.Ctime)
}

// room is a context that ends when a copy has taken nine tenths of the space that was free on its disk: other programs
// fail where a disk is full. Nothing is refused beforehand, because copies of some file systems share their blocks.
type room struct {
	context.Context
	disk  *tree.Handle
	least uint64 // blocks that have to stay free
}

var errNoRoom = fmt.Errorf("a copy of the project would take more than nine tenths of the free space: %w", unix.ENOSPC)

func makeRoom(ctx context.Context, disk *tree.Handle) (*room, error) {
	free, err := freeBlocks(disk)
	return &room{ctx, disk, free / 10}, err
}

func (r *room) Err() error {
	if err := r.Context.Err(); err != nil {
		return err
	}
	if free, err := freeBlocks(r.disk); err == nil && free < r.least {
		return errNoRoom
	}
	return nil
}

func freeBlocks(disk *tree.Handle) (uint64, error) {
	var st unix.Statfs_t
	err := sys.Retry(func() error { return unix.Fstatfs(int(disk.FD), &st) })
	return st.Bavail, err
}

// await waits until changes in a copy get another ctime than the copy itself: before Linux 6.13, the clock of file
// systems advances in steps of some milliseconds.
func (s *Session) await(copied int64) error {
	const name = "clock"
	if err := tree.RemoveTree(s.area(), name); err != nil {
		return err
	}
	h, err := s.area().Create(name)
	if err != nil {
		return err
	}
	defer h.Close()
	for tries := 0; err == nil && tries < 2000; tries++ { // if somebody sets the clock, it does not wait for long
		if err = h.Chmod(0o600); err != nil {
			break
		}
		var st tree.Stat
		if st, err = h.Stat(); err == nil && st.Ctime > copied {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return cmp.Or(err, tree.RemoveTree(s.area(), name))
}

// noteCopies records what is known of the copies, so that they can be compared even if this process is killed. (Copies
// in memory would be lost.)
func (s *Session) noteCopies() error {
	if s.mem != nil {
		return nil
	}
	var list []*tree.Node
	for _, r := range s.copies {
		list = append(list, r.Low)
	}
	for _, r := range s.copies {
		list = append(list, r.Own)
	}
	if err := tree.RemoveTree(s.dir, copyingName); err != nil {
		return err
	}
	h, err := s.dir.Create(copyingName)
	if err != nil {
		return err
	}
	f := h.OSFile(copyingName)
	if err := errors.Join(tree.WriteIndex(f, list), f.Close()); err != nil {
		return err
	}
	return s.dir.Rename(copyingName, copiedName, 0)
}

var errNoTypes = errors.New("this file system cannot hold the changes of an overlay: its directories do not say of what type their entries are")

// chooseEngine finds the engine for a session whose directory is s.dir and whose roots are open. It asks the kernel for
// types of file systems, and tries only those types that it does not know.
func (s *Session) chooseEngine() (store.Engine, error) {
	for _, low := range s.lower {
		typ, err := tree.FSType(low)
		if err != nil {
			return "", err
		}
		if !tree.IsLower(typ) || !tree.ServesOverlay(low) {
			return store.Copy, nil
		}
	}
	typ, err := tree.FSType(s.dir)
	if err != nil {
		return "", err
	}
	ok, sure := tree.IsUpper(typ)
	if !sure {
		ok = tree.TakesMarks(s.dir)
	}
	if ok && !sys.On9P(s.dir.FD) {
		if ok, err = sys.TellsTypes(s.dir.FD); err != nil {
			return "", err
		}
		if ok {
			return store.Overlay, nil
		}
	}
	return store.Tmpfs, nil
}

// rearm prepares a session with stored changes for another command, which sees them. The caller holds s.work.
func (s *Session) rearm(ctx context.Context) (err error) {
	if !s.stored() || s.armed {
		return nil
	}
	if _, left, err := s.dir.LstatIf(copiedName); err != nil || left {
		return cmp.Or(err, errors.New("the changes of its last command could not be stored"))
	}
	h, roots, err := tree.Unpacked(s.dir)
	if err == unix.ENOENT {
		return s.lost()
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if len(roots) != len(s.meta.Roots) {
		return tree.ErrIndex
	}
	for i := range s.roots {
		if _, err := s.root(i); err != nil {
			return err
		}
	}
	if err := tree.RemoveTree(s.dir, "upper"); err != nil {
		return err
	}
	if err := tree.RemoveTree(s.dir, "work"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.disarm()
		}
	}()
	if err := s.arm(); err != nil {
		return err
	}
	for i := range roots {
		if s.meta.Engine == store.Copy {
			if err := s.makeCopy(ctx, i); err != nil {
				return err
			}
		}
		for _, name := range []string{store.WorkName(i), store.UpperName(i)} {
			if err := s.area().Mkdir(name); err != nil && err != unix.EEXIST {
				return err
			}
		}
		up, err := tree.OpenForRemoval(s.area(), store.UpperName(i))
		if err != nil {
			return err
		}
		p := tree.Putter{Ctx: ctx, From: h, Top: up, Merge: s.meta.Engine == store.Copy}
		if err = p.Directory(roots[i], up, "."); err == nil {
			err = s.renew(i, roots[i], up)
		}
		up.Close()
		if err != nil {
			return err
		}
	}
	if s.meta.Engine == store.Copy {
		if err := s.noteCopies(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
	return nil
}

// renew records the ctimes that settled objects have after they were restored: their content is the same.
func (s *Session) renew(root int, packed *tree.Node, top *tree.Handle) error {
	for i, st := range s.meta.Settled {
		if st.Root != root || st.Upper == 0 {
			continue
		}
		n := packed
		for name := range strings.SplitSeq(string(st.Path), "/") {
			if n != nil {
				n = n.Child(name)
			}
		}
		if n == nil || n.Stat.Ctime != st.Upper {
			continue
		}
		dir, name := tree.SplitPath(string(st.Path))
		d, err := top.Open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		now, err := d.Lstat(name)
		d.Close()
		if err != nil {
			return err
		}
		if s.renewed == nil {
			s.renewed = map[int]int64{}
		}
		s.renewed[i] = now.Ctime
	}
	return nil
}
