//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Commit is CommitWith for paths.
func (s *Session) Commit(ctx context.Context, paths ...string) error {
	return s.CommitWith(ctx, CommitOptions{Paths: paths})
}

// CommitWith commits the chosen changes to the project, all or none. New directories above a chosen path are committed
// with it.
//
// After a *SpecialError, a *ConflictError, or any other error except a *CommitError, the project is as it was. ctx can
// stop the commit while new objects are being written; once they are being renamed into place, ctx is ignored.
//
// Files that run later (Change.Runs) are held back, unless o says otherwise, and with HoldSpecial so are special files;
// Held lists them. If nothing else was chosen, the error is a *HeldError, and nothing is done.
//
// When no change is left the session is Committed; until then it is Kept, and Changes
// yields the rest. Undo takes it back.
func (s *Session) CommitWith(ctx context.Context, o CommitOptions) (err error) {
	const op = "commit"
	defer func() { err = s.public(op, err) }()
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.checkBase(op); err != nil {
		return err
	}
	if err := s.checkSynced(op, o.AllowUnsynced); err != nil {
		return err
	}
	err = s.commit(ctx, o)
	if errors.Is(err, unix.EXDEV) && !s.log.Far {
		if _, half := errors.AsType[*CommitError](err); !half {
			// It is one mount, but renames fail: project quotas, or encrypted directories.
			s.log.Far = true
			err = s.commit(ctx, o)
			s.log.Far = false
		}
	}
	return err
}

func (s *Session) commit(ctx context.Context, o CommitOptions) error {
	const most = 10 // each time, another commit has made more of the changes run later
	err := s.commitOnce(ctx, o)
	for range most {
		if err != errLate {
			break
		}
		s.patient = true
		err = s.commitOnce(ctx, o)
	}
	return err
}

func (s *Session) commitOnce(ctx context.Context, o CommitOptions) error {
	c := newCommit(s, o)
	defer c.close()
	err := c.beginTurn()
	if err == nil {
		err = c.find(ctx)
	}
	s.mu.Lock()
	s.held = c.held
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// Held returns the changes that the last CommitWith held back, because they would run later or are special.
func (s *Session) Held() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held)
}

// find compares both sides, and chooses what to commit; it changes nothing.
func (c *commit) find(ctx context.Context) error {
	s := c.s
	for i := range s.roots {
		up, low, err := s.trees(i)
		if err != nil {
			return err
		}
		c.layers = append(c.layers, tx.Side{Up: up, Low: low, Base: s.meta.Roots[i]})
		h, err := s.root(i)
		if err != nil {
			return err
		}
		st, err := h.Stat()
		if err != nil {
			return &Error{Op: "commit", Path: s.roots[i].Path, Err: err}
		}
		typ, err := tree.FSType(h)
		if err != nil {
			return &Error{Op: "commit", Path: s.roots[i].Path, Err: err}
		}
		c.plain = append(c.plain, !tree.HoldsLinks(typ))
		c.layers[i].Stiff = typ == unix.OVERLAYFS_SUPER_MAGIC || s.stiff
		c.layers[i].Replaced, c.layers[i].Dev = st.Ino != s.meta.Roots[i].Ino, st.Dev
	}
	c.ledger.Load(s.meta)
	if err := c.traces(); err != nil {
		return &Error{Op: "commit", Path: s.path, Err: err}
	}
	c.twins = make([]map[tree.Inode]tree.Twin, len(s.roots))
	for i := range c.twins {
		c.twins[i] = map[tree.Inode]tree.Twin{}
	}
	c.runs = newRunsFinder(s, false)
	c.runs.ahead = !s.patient
	var all []node
	wait := false
	for n, err := range s.nodes(walkOptions{twins: c.twins, times: true, runs: c.runs}) {
		if n.Deep != nil {
			err = nil // which matters if it is chosen
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		n.KeepGroup()
		if c.plain[n.root] {
			if why := unheld(&n); why != "" {
				n.Special, n.unheld = why, true
			}
		}
		all = append(all, n)
		c.deletes = c.deletes || n.Kind == Deleted
		wait = wait || n.BelowErr != nil // which does not matter if n is held back
	}
	if wait || len(all) > searchMost || c.runs.searched() {
		if _, err := c.runs.settle(all); err != nil {
			return err
		}
	}
	chosen, held, err := s.choose(all, c.o)
	if err != nil {
		return err
	}
	for _, n := range chosen {
		if err := cmp.Or(n.Deep, n.BelowErr); err != nil {
			return err
		}
	}
	c.nodes, c.held = chosen, changesOf(held)
	c.full = changesIn(chosen) == changesIn(all)
	if held != nil && changesIn(chosen) == 0 {
		return &HeldError{c.held}
	}
	if !c.full {
		c.leaveOut(slices.DeleteFunc(all, func(n node) bool { return n.Deep != nil }))
	}
	return nil
}

// run carries out the whole commit.
func (c *commit) run(ctx context.Context) (err error) {
	err = tree.InTurn(c.checkSpecials, func() error { return c.resolveConflicts(ctx) }, c.checkIndexes)
	if err != nil {
		return cmp.Or(c.late(), err) // it may be about a change that is to be held back
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.late(); err != nil {
		return c.failed(err)
	}
	if err := c.takeTurn(ctx); err != nil {
		return c.failed(err)
	}
	err = c.tx.Forward(true)
	if err == nil {
		err = c.endMark()
	}
	if err != nil && !slices.Contains(c.s.meta.Done, c.tx.N) {
		err = c.failed(err)
		c.turn.end()
		return err
	}
	c.turn.end()
	// From here on the project has the session's changes, whatever happens.
	err = errors.Join(err, c.tx.Tidy())
	if err == nil && c.write.NoteStays(&c.ledger) {
		m := *c.s.meta
		c.ledger.Save(&m)
		_ = c.s.setMeta(&m, new(tree.Flusher)) // without it there are more conflicts than there should be
	}
	if err != nil {
		return &CommitError{Applied: c.changes(), Err: err}
	}
	return nil
}

// begin makes the transaction, up to the first change of the project.
func (c *commit) begin(ctx context.Context) (err error) {
	if err := c.s.checkDependents(); err == nil {
		c.alone = true
	} else if !errors.Is(err, ErrBuiltOn) {
		return &Error{Op: "look for sessions on", Path: c.s.path, Err: err}
	}
	changed := make([]bool, len(c.s.roots))
	for i := range c.nodes {
		changed[c.nodes[i].root] = true
	}
	if err = c.s.checkWritable("commit", changed); err != nil {
		return err
	}
	if c.tx, err = c.s.log.Begin(); err != nil {
		return &Error{Op: "begin commit", Path: c.s.path, Err: err}
	}
	c.tx.Plain = c.s.log.Plain
	c.write = c.writer()
	if err = c.write.Stage(ctx); err == nil {
		if err = c.tx.Seal(&c.write.Copier.Flush); err != nil {
			err = &Error{Op: "write journal", Path: c.s.path, Err: err}
		}
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// failed takes back what was done, and returns err, or a worse error.
func (c *commit) failed(err error) error {
	c.write.Copier.Close()
	undo := c.tx.Abandon(&c.ledger)
	switch {
	case undo == nil:
		return err
	case c.tx.Begun && !errors.Is(undo, tx.ErrUntidy):
		return &CommitError{Applied: c.changes(), Err: errors.Join(err, undo), perhaps: true}
	}
	return errors.Join(err, undo)
}

// endMark records that the commit is done, by one rename of the session's data, after everything is on disk.
func (c *commit) endMark() error {
	s, t := c.s, c.tx
	var project tree.Flusher
	defer project.Close()
	if err := c.write.Refresh(&project); err != nil {
		return err
	}
	if err := t.FlushProject(&project); err != nil {
		return err
	}
	m := *s.meta
	m.Done = append(slices.Clone(m.Done), t.N)
	for i := range t.Journal.Attrs {
		if n := t.Journal.Nodes[t.Journal.Attrs[i].Node]; n.Path == "." {
			// From now on the root is compared with its new state.
			m.Roots = slices.Clone(m.Roots)
			for _, x := range c.nodes {
				if x.root == n.Root && x.Path == "." && !x.TimeOnly {
					m.Roots[n.Root].Mode, m.Roots[n.Root].UID, m.Roots[n.Root].GID = x.Up.Perm(), x.Up.UID, x.Up.GID
				}
			}
		}
	}
	if c.full {
		m.State = store.Committed
	} else {
		for _, n := range t.Journal.Nodes {
			if n.Kind == "" {
				continue
			}
			upper, done := c.upperTime(n), n.Path != "."
			if n.New.Ino != 0 && n.New.Mode&unix.S_IFMT == unix.S_IFDIR || n.New.Ino == 0 && n.Upper == 0 && n.Kind != Deleted.String() {
				upper, done = 0, false // what is in a directory decides, every time
			}
			t.Note(&c.ledger, store.Place{Root: n.Root, Path: string(n.Path)}, upper, done)
		}
		t.NoteTimes(&c.ledger)
		for _, n := range c.dropped {
			if !n.HasUp {
				c.ledger.Set(store.Place{Root: n.root, Path: n.Path}, store.Settled{Lower: n.Low.Ctime, Done: true})
			} else if !n.Up.IsDir() {
				c.ledger.Set(store.Place{Root: n.root, Path: n.Path}, store.Settled{Lower: n.Low.Ctime, Upper: n.Up.Ctime, Done: true})
			}
		}
	}
	c.write.NoteFiles(&c.ledger) // for sessions on this one, too
	if t.LookErr != nil {
		return t.LookErr
	}
	if err := t.NoteDoors(&c.ledger); err != nil {
		return err
	}
	c.ledger.Save(&m)
	if err := s.setMeta(&m, &project); err != nil {
		return &Error{Op: "write session's data", Path: s.path, Err: err}
	}
	return nil
}

// upperTime is the ctime of the session's object. It has changed if the object had to be made readable to be copied.
func (c *commit) upperTime(n tx.Node) int64 {
	if tree.IsRoot() || n.Upper == 0 || n.New.Mode&0o400 != 0 {
		return n.Upper
	}
	dir, name := tree.SplitPath(string(n.Path))
	if d, err := c.layers[n.Root].Source(dir); err == nil {
		if st, ok, err := d.Lstat(name); err == nil && ok && st.Size == n.New.Size && tx.Moment(st.Mtime) == n.New.Mtime {
			return st.Ctime
		}
	}
	return n.Upper
}

// writer returns the writer of a transaction with the chosen nodes.
func (c *commit) writer() *tx.Writer {
	w := &tx.Writer{Tx: c.tx, Sides: c.layers, Twins: c.twins, Changed: c.changed, Special: c.o.AllowSpecial, Apart: map[store.Place]bool{}}
	w.Take = c.full && c.alone && !c.s.stored() && !c.s.log.Far
	for i := range c.nodes {
		n := &c.nodes[i]
		x := tx.Item{Diff: n.Diff, Root: n.root, Kind: n.Kind.String(), Runs: n.Runs, Merged: n.merged}
		if n.HasUp && !n.TimeOnly && c.s.gitFileAt(store.Place{Root: n.root, Path: n.Path}) == gitIndex {
			if index, err := c.indexOf(n, true); err == nil && index != nil {
				x.Staged = index.Digest()
				if work, ok := workTree(n.Path); ok {
					x.Work = work
				}
			}
		}
		w.Items = append(w.Items, x)
	}
	if c.o.Progress != nil {
		w.Progress = func(made int, bytes int64) {
			c.o.Progress(Progress{Done: made, Total: len(c.nodes), Bytes: bytes})
		}
	}
	return w
}

// checkSpecials refuses special objects, unless the caller asked for them.
func (c *commit) checkSpecials() error {
	if c.o.AllowSpecial {
		return nil
	}
	var list []Special
	for _, n := range c.nodes {
		if n.Special != "" {
			list = append(list, Special{Root: n.Root, Path: n.Path, Mode: n.Mode, Why: n.Special})
		}
	}
	if len(list) > 0 {
		return &SpecialError{list}
	}
	return nil
}
