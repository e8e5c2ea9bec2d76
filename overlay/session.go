//go:build linux

package overlay

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// A Root is one directory of a session.
type Root struct {
	Path  string // the project's directory, absolute, without symbolic links
	Upper string // what was written
	Work  string // overlayfs' own
}

// A Session is one overlay over one or more roots. It holds the session's lock until it is closed. Its methods may be
// called from several goroutines. The zero Session is not usable; make one with Create or Open.
type Session struct {
	id, path string
	readOnly bool
	busy     bool // read-only: somebody else held the lock

	stiff bool // for tests: directories are never renamed

	patient bool // a commit began anew because of errLate, so the next ones wait; under work

	retimed atomic.Int64            // see Retimed
	surveys map[string]*tree.Survey // by root; under mu

	work sync.Mutex // held while changes are committed or thrown away

	book store.Book

	log tx.Log

	roots []Root // Path only, which never changes; see rootList

	// The following fields are written under both locks, and read under either: a goroutine that does slow work
	// holds only work, so that readers do not wait for it.
	mu    sync.Mutex
	state *tree.Handle // the directory of all sessions
	dir   *tree.Handle // the session's own
	lock  *tree.Handle
	meta  *store.Meta
	below []store.Base // what it stands on, for Mounts; their handles are closed

	lowerMu sync.Mutex
	lower   []*tree.Handle // by root; nil until it is first needed

	unmapped []string // see Unmapped

	indexes map[store.Place]*tree.Handle // of git, as they were when the command began
	fresh   bool                         // no command has run yet

	// began is when the present command began, if it is not the session's first; had is what was written before.
	// Nil: that is not known.
	began int64
	had   map[store.Place]bool

	// Fields of engines that store changes when the command has ended.
	armed  bool          // a command may run, or has written something that is not stored yet
	mem    *tree.Handle  // the session's tmpfs; nil: none
	layer  *os.File      // the same, for others
	copies []tree.Record // what the copies were like

	scratch int  // how many pairs of scratch directories are there and not in use; the first ones
	cleared bool // nothing was written to any pair
	reused  bool // the directories were a Spare's

	volatile bool // see beginUnsynced
	mounted  bool // Mounts was called since the work directories were cleared

	held []Change // see Held

	unmounted unmount // see MountedUntil; under work

	// renewed are the ctimes that objects of meta.Settled got when they were restored, by index.
	renewed map[int]int64
}

// name sets what follows from the session's name.
func (s *Session) name(id, statePath string) {
	s.id, s.path = id, filepath.Join(statePath, id)
	s.book.State, s.book.Dir, s.book.ID = s.state, s.dir, id
	s.roots = make([]Root, len(s.meta.Roots))
	for i, r := range s.meta.Roots {
		s.roots[i].Path = string(r.Path)
	}
	s.log = tx.Log{Dir: s.dir, Path: s.path, Book: &s.book, Open: s.root, Meta: func() *store.Meta { return s.meta }, SetMeta: s.setMeta}
	for _, r := range s.roots {
		s.log.Roots = append(s.log.Roots, r.Path)
	}
	if s.lower == nil {
		s.lower = make([]*tree.Handle, len(s.roots))
	}
}

// rootList returns the roots with the paths at which a sandbox finds the session. The caller holds s.mu or s.work.
func (s *Session) rootList() []Root {
	area, list := s.areaPath(), slices.Clone(s.roots)
	for i := range list {
		list[i].Upper, list[i].Work = filepath.Join(area, store.UpperName(i)), filepath.Join(area, store.WorkName(i))
	}
	return list
}

// ID returns the session's whole id, which is the name of its directory.
func (s *Session) ID() string { return s.id }

// Dir returns the session's directory.
func (s *Session) Dir() string { return s.path }

// Roots returns the session's roots, in the order they were given.
func (s *Session) Roots() []Root {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rootList()
}

// State returns the state of the session.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stateOf(s.meta.State)
}

// Unmapped returns the roots that the caller may write to, but whose group does not exist in a user namespace of an
// ordinary user: through an overlay, the kernel refuses to change files of that group (EOVERFLOW). With EngineCopy they
// can be changed. It is known only for a session from Create.
func (s *Session) Unmapped() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.Engine == store.Copy {
		return nil
	}
	return slices.Clone(s.unmapped)
}

// MountedUntil says that the session's overlays stay mounted until the channel is closed, although the command has
// ended and no process uses them. Until then, what needs the directories of the overlays waits: Resume, Retire's Spare,
// ClearScratch, DropScratch, Remove and Close. The changes can be listed, committed and discarded meanwhile. Nil: they
// are unmounted.
func (s *Session) MountedUntil(unmounted <-chan struct{}) {
	s.work.Lock()
	defer s.work.Unlock()
	s.unmounted = unmounted
}

// An unmount is closed when overlays are unmounted. Nil: they are.
type unmount <-chan struct{}

// await waits for it, or until ctx ends.
func (u unmount) await(ctx context.Context) error {
	if u == nil {
		return nil
	}
	select {
	case <-u:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockUnmounted waits until nothing has the session mounted, and keeps all other calls out until unlock is called.
func (s *Session) lockUnmounted() (unlock func()) {
	s.work.Lock()
	_ = s.unmounted.await(context.Background())
	s.mu.Lock()
	return func() {
		s.mu.Unlock()
		s.work.Unlock()
	}
}

// Close releases the session's lock and descriptors. Its changes stay, and are on disk when it returns; it can wait for
// the disk as long as fsync(2). After an error they may not be on disk yet, see ErrUnsynced. Closing again does
// nothing.
func (s *Session) Close() (err error) {
	defer s.lockUnmounted()()
	s.removeOwn()
	err = s.sync()
	s.release()
	return err
}

// removeOwn removes what no other command needs.
func (s *Session) removeOwn() {
	if s.lock != nil {
		_ = s.clearWork()
		_ = tree.RemoveTree(s.dir, store.ScratchName)
	}
}

func (s *Session) release() {
	for _, h := range s.lower {
		h.Close()
	}
	s.lower = make([]*tree.Handle, len(s.lower))
	s.dropIndexes()
	s.removeOwn()
	s.armed = false
	s.closeMem()
	s.book.Close()
	s.dir.Close()
	s.state.Close()
	s.lock.Close() // last: then others may have it
	s.dir, s.state, s.lock = nil, nil, nil
}

// root returns the project's directory of root i, opening it on first use.
func (s *Session) root(i int) (*tree.Handle, error) {
	s.lowerMu.Lock()
	defer s.lowerMu.Unlock()
	if s.lower[i] == nil {
		h, err := tree.OpenAbs(s.roots[i].Path, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return nil, &Error{Op: "open root", Path: s.roots[i].Path, Err: err}
		}
		s.lower[i] = h
	}
	return s.lower[i], nil
}

// checkWritable fails with EROFS if nobody can write to one of the roots that are to be changed.
func (s *Session) checkWritable(op string, changed []bool) error {
	for i, is := range changed {
		if !is {
			continue
		}
		h, err := s.root(i)
		if err != nil {
			return err
		}
		if tree.ReadOnly(h) {
			return &Error{Op: op, Path: s.roots[i].Path, Err: unix.EROFS}
		}
	}
	return nil
}

// usable returns an error if the session has no changes to work with. The caller holds s.mu or s.work.
func (s *Session) usable(op string, write bool) error {
	var err error
	switch {
	case s.dir == nil:
		err = fs.ErrClosed
	case write && s.readOnly:
		err = ErrReadOnly
	case s.meta.State != store.Kept:
		err = ErrEnded
	default:
		return nil
	}
	return &Error{Op: op, Path: s.path, Err: err}
}

// closed says why the session cannot be changed.
func (s *Session) closed() error {
	if s.dir == nil {
		return fs.ErrClosed
	}
	return ErrReadOnly
}

// decided is the time of the last commit, drop or discard. Zero: unknown.
func (s *Session) decided() time.Time {
	if s.dir == nil {
		return time.Time{}
	}
	st, found, err := s.dir.LstatIf(store.MetaName)
	if err != nil || !found {
		return time.Time{}
	}
	return time.Unix(st.Mtime.Unix())
}

// setMeta replaces the session's data, also on disk, after everything that before has to write. The caller holds
// s.work, and not s.mu.
func (s *Session) setMeta(m *store.Meta, before *tree.Flusher) error {
	renamed, err := store.WriteMeta(s.dir, m, before)
	if renamed {
		s.setLoaded(m)
	}
	return err
}

// decideMeta is setMeta for what decides on the session's changes: what says what is done from then on, also if it may
// not be on disk.
func (s *Session) decideMeta(m *store.Meta, what string) error {
	err := s.setMeta(m, new(tree.Flusher))
	if err != nil && s.meta == m {
		return &doneError{err, what}
	}
	return err
}

// setLoaded makes m, which is on disk already, the session's data.
func (s *Session) setLoaded(m *store.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = m
}

// area is the directory of the upper and work directories.
func (s *Session) area() *tree.Handle {
	if s.mem != nil {
		return s.mem
	}
	return s.dir
}

// areaPath is its path; on the session's tmpfs, the path in the sandbox.
func (s *Session) areaPath() string {
	if s.mem != nil {
		return s.path + "/" + store.MemName
	}
	return s.path
}

// stored reports whether the session's changes are packed as soon as the command has ended.
func (s *Session) stored() bool { return s.meta.Engine == store.Tmpfs || s.meta.Engine == store.Copy }

// closeMem closes mem, for a caller that holds s.mu.
func (s *Session) closeMem() {
	s.mem.Close()
	s.mem = nil
	if s.layer != nil {
		_ = s.layer.Close()
		s.layer = nil
	}
}

func (s *Session) dropIndexes() {
	for _, h := range s.indexes {
		h.Close()
	}
	clear(s.indexes)
}

// copiedName is a file of a session: the index of its copies. It contains first what the project had, then what the
// copies had. It exists until the copies were compared. As copyingName it is incomplete.
const (
	copiedName  = "copied"
	copyingName = ".copied.new"
)

// Info describes the session.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := Info{
		ID: s.id, Dir: s.path, Created: s.meta.Created, State: stateOf(s.meta.State), On: s.meta.On, Engine: engineOf(s.meta.Engine),
		Roots: s.rootList(), Commits: len(s.meta.Done), Busy: s.lock != nil || s.busy, Command: store.LastCommand(s.dir, s.meta),
	}
	if info.Undo = lastDeed(s.meta); info.Undo != NoDeed {
		info.Decided = s.decided()
	}
	if s.dir != nil && s.meta.State == store.Kept {
		_, info.Unsynced = store.Unsynced(s.dir)
	}
	info.Interrupted = !info.Busy && s.state != nil && store.Pending(s.state, s.id)
	return info
}
