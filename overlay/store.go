//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

var (
	errLost    = errors.New("what its command wrote was in memory, and is lost: the program was killed before it could store it")
	errUnknown = errors.New("what its command wrote was not compared with the project: the program was killed before it could do that")
)

// begin makes what the session's engine needs before a command can run.
func (s *Session) begin(o Options) error {
	if s.reused {
		s.meta.Engine = store.Overlay // which did for the same roots
	} else if o.Engine != 0 {
		s.meta.Engine = store.Engine(o.Engine.String())
	} else {
		engine, err := s.chooseEngine()
		if err != nil {
			return err
		}
		s.meta.Engine = engine
	}
	err := s.arm()
	if err != nil && s.meta.Engine == store.Tmpfs && o.Engine == 0 {
		s.meta.Engine = store.Copy
		err = s.arm()
	}
	return err
}

// arm makes the place for what the command will write.
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
		h, err := store.NewTmpfs()
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

// area is the directory that holds upper and work directories.
func (s *Session) area() *tree.Handle {
	if s.mem != nil {
		return s.mem
	}
	return s.dir
}

// areaPath is its path: for the sandbox, where it is on the session's tmpfs.
func (s *Session) areaPath() string {
	if s.mem != nil {
		return s.path + "/" + store.MemName
	}
	return s.path
}

// stored reports whether the session's changes are packed as soon as the command has
// ended.
func (s *Session) stored() bool { return s.meta.Engine == store.Tmpfs || s.meta.Engine == store.Copy }

// Layers returns the descriptors that Mounts needs: they are to be nsexec.Cmd's. They
// belong to the session. Nil: none.
func (s *Session) Layers() []*os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	if s.layer == nil {
		fd, err := unix.FcntlInt(uintptr(s.mem.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil // then the kind of mount that needs it fails
		}
		s.layer = os.NewFile(uintptr(fd), "tmpfs")
	}
	return []*os.File{s.layer}
}

// Collect stores what the command has written. It is to be called when the command has
// ended, before anything else is asked of the session; until then a session that is not
// kept by an overlay of its own directory (see Info.Engine) has no changes to show. For
// other sessions it does nothing, and neither if it was called already.
func (s *Session) Collect(ctx context.Context) error {
	const op = "store changes"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	if !s.stored() || !s.armed {
		return nil
	}
	err := tree.Pack(ctx, s.dir, len(s.roots), func(p *tree.Packer, i int) (*tree.Node, error) {
		if s.meta.Engine == store.Copy {
			return s.compareCopy(p, i)
		}
		h, err := s.mem.Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return nil, err
		}
		t := &tree.Real{H: h, Upper: true, Unlock: true}
		defer t.Close()
		return p.Tree(t)
	})
	if err != nil {
		if err = public(err); errors.As(err, new(*Error)) {
			return err
		}
		return &Error{Op: op, Path: s.path, Err: err}
	}
	s.disarm()
	if s.meta.Engine == store.Copy {
		// What is left of it takes place only.
		_ = tree.RemoveTree(s.dir, copiedName)
		_ = tree.RemoveTree(s.dir, "upper")
	}
	if len(s.renewed) == 0 {
		return nil
	}
	m := *s.meta
	m.Settled = slices.Clone(m.Settled)
	for i, ctime := range s.renewed {
		if i < len(m.Settled) {
			m.Settled[i].Upper = ctime
		}
	}
	s.renewed = nil
	if err := s.setMeta(&m, nil); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	return nil
}

// renew notes which ctimes settled objects have now, after they were put back: they are
// what they were.
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

// disarm lets go of the session's tmpfs: nothing of a command is in it any more.
func (s *Session) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	s.closeMem()
}

// closeMem closes it, for who holds s.mu.
func (s *Session) closeMem() {
	s.mem.Close()
	s.mem = nil
	if s.layer != nil {
		_ = s.layer.Close()
		s.layer = nil
	}
}

// rearm makes a session with stored changes ready for another command, which sees them.
// The caller holds s.work.
func (s *Session) rearm(ctx context.Context) (err error) {
	if !s.stored() || s.armed {
		return nil
	}
	if _, left, err := s.dir.LstatIf(copiedName); err != nil || left {
		return cmp.Or(err, errors.New("what its last command wrote could not be stored"))
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

// lost says why there are no stored changes.
func (s *Session) lost() error {
	if s.meta.Engine == store.Copy {
		return errUnknown
	}
	return errLost
}

// packed opens the stored upper side of root i.
func (s *Session) packed(i int) (tree.Tree, error) {
	h, roots, err := tree.Unpacked(s.dir)
	switch {
	case err == unix.ENOENT && s.busy:
		return nil, errors.New("its changes are seen when its command has ended")
	case err == unix.ENOENT:
		return nil, s.lost()
	case err != nil:
		return nil, err
	case len(roots) != len(s.meta.Roots):
		h.Close()
		return nil, tree.ErrIndex
	}
	return &tree.Packed{Root: roots[i], H: h}, nil
}
