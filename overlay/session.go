//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Options describes a new session. The zero value is not enough: a session has
// at least one root.
type Options struct {
	// Roots are the directories whose changes are kept apart. None: an error.
	// They are made absolute and free of symbolic links. A root that is "/",
	// lies in another one, or holds the state directory is refused.
	Roots []string

	// Command is what will be run, for List to show. Nil: unknown.
	Command []string

	// Dir is the state directory. Empty: DefaultDir. It is made, mode 0700, if
	// it is missing, and refused if it is not the caller's own.
	Dir string

	// On is another session of the state directory, named as for Open, on which this one
	// is to stand: the command sees the project with that one's changes. The roots must
	// be that session's, or some of them. It must not be in use, and nothing can write to
	// it as long as this one has changes. Empty: the project itself.
	On string

	// Engine says how what is written is kept apart from the project. Zero: as suits
	// the file systems, see Info.Engine.
	Engine Engine

	// Spare is what another session left, which is used if it is Ready and of the same
	// roots, and is removed if not. It is Create's from then on. Nil: all is made anew.
	Spare *Spare
}

// A Root is one directory of a session.
type Root struct {
	Path  string // the project's directory, absolute, without symbolic links
	Upper string // what was written
	Work  string // overlayfs' own
}

// Info describes a session.
type Info struct {
	ID      string
	Dir     string // the session's directory
	Created time.Time
	Command []string // nil: unknown
	State   State    // zero: Kept
	Roots   []Root
	Busy    bool   // somebody holds the session open
	On      string // the session that it was begun on; empty: none
	Engine  Engine

	// Commits is how many commits Undo can take back.
	Commits int

	// Undo is what Session.Undo takes back next, and Decided when that was done. Zero: there is
	// nothing.
	Undo    Deed
	Decided time.Time

	// Interrupted says that something was begun with the session, and could be neither
	// finished nor taken back: Recover tells why.
	Interrupted bool
}

// A Session is one overlay over one or more roots. It holds the session's lock
// until it is closed. Its methods may be called from several goroutines.
// The zero Session is not usable; make one with Create or Open.
type Session struct {
	id, path string
	readOnly bool
	busy     bool // read-only: somebody else held the lock

	stiff bool // for tests: directories are never renamed

	retimed atomic.Int64            // see Retimed
	surveys map[string]*tree.Survey // by root; under mu

	work sync.Mutex // held while changes are committed or thrown away

	book store.Book

	log tx.Log

	roots []Root // Path only, which never changes; see rootList

	// What follows is written under both locks, and read under either: who does something
	// that takes time holds work alone, so that nobody who only asks has to wait for it.
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

	// began is when the command began, where that is not the session's first, and had what was written before. Nil:
	// that is not known.
	began int64
	had   map[store.Place]bool

	// Of engines that store what was written when the command has ended.
	armed  bool          // a command may run, or has written something that is not stored yet
	mem    *tree.Handle  // the session's tmpfs; nil: none
	layer  *os.File      // the same, for others
	copies []tree.Record // what the copies were like

	scratch int  // how many pairs of scratch directories are there and not in use; the first ones
	cleared bool // nothing was written to any pair
	reused  bool // the directories were a Spare's

	held []Change // see Held

	// renewed are the ctimes that objects of meta.Settled got when they were put back,
	// by index.
	renewed map[int]int64
}

// Create begins a session. It costs a few system calls however large the roots
// are, and does not wait for a disk. The session is locked until Close.
func Create(o Options) (*Session, error) { return CreateContext(context.Background(), o) }

// CreateContext is Create, which ctx ends: with EngineCopy the project is copied.
func CreateContext(ctx context.Context, o Options) (_ *Session, err error) {
	statePath, state, err := openStateDir(o.Dir, true)
	if err != nil {
		return nil, err
	}
	s := &Session{state: state, meta: &store.Meta{Version: store.MetaVersion, State: store.Kept}}
	spare := o.Spare
	defer func() {
		err = public(err)
		if spare != nil {
			_ = spare.Remove()
		}
		if err != nil {
			s.release()
		}
	}()
	if err := s.openRoots(o.Roots, statePath); err != nil {
		return nil, err
	}
	if err := s.mend(statePath); err != nil {
		return nil, err
	}
	if o.On != "" {
		lock, err := s.standOn(statePath, o.On)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	s.meta.Command = store.RawTexts(o.Command)

	made := ""
	defer func() {
		if err != nil && made != "" {
			_ = tree.RemoveTree(state, made)
		}
	}()
	fail := func(op string, err error) (*Session, error) {
		return nil, &Error{Op: op, Path: filepath.Join(statePath, made), Err: err}
	}
	// The directory appears under its name when it is complete, so that List
	// and Open never see half of one.
	if spare != nil && spare.ready && spare.fits(o, state, s.meta.Roots) {
		made = spare.name
		err, spare = spare.take(s), nil
	} else {
		made, s.dir, s.lock, err = store.MakeDir(state)
	}
	if err != nil {
		return fail("make session directory", err)
	}
	// The time of the beginning is read off a file: the kernel stamps files with
	// a clock that lags behind the one that time.Now reads, and a file that is
	// changed right after this must not seem older.
	st, err := s.lock.Stat()
	if err != nil {
		return fail("lock session", err)
	}
	s.meta.Created = time.Unix(0, st.Ctime).UTC()
	if err = s.begin(o); err != nil {
		return fail("make session directory", err)
	}
	for i := range s.meta.Roots {
		if s.meta.Engine == store.Copy {
			err = s.makeCopy(ctx, i)
			if err == nil {
				err = s.noteBase(i, s.copies[i].Own.Stat)
			}
		} else {
			err = s.makeUpper(i)
		}
		if err != nil {
			return fail("make upper directory", err)
		}
	}
	if s.meta.Engine == store.Copy {
		if err = s.noteCopies(); err != nil {
			return fail("note what was copied", err)
		}
	}
	s.armed = s.stored()
	if err = store.WriteFirst(s.dir, s.meta, s.reused); err != nil {
		return fail("write session's data", err)
	}
	for {
		name := store.NewName(s.meta.Created)
		err = state.Rename(made, name, unix.RENAME_NOREPLACE)
		if err == unix.EINVAL { // a file system that cannot do it
			err = state.Rename(made, name, 0)
		}
		if err == unix.EEXIST || err == unix.ENOTEMPTY {
			continue
		}
		if err != nil {
			return fail("name session directory", err)
		}
		made = name
		s.name(name, statePath)
		s.fresh = true
		s.holdIndexes()
		return s, nil
	}
}

// makeSub makes a directory in the session's; a Spare has it.
func (s *Session) makeSub(name string) error {
	err := s.area().Mkdir(name)
	if err == unix.EEXIST && s.reused {
		return nil
	}
	return err
}

// openRoots checks the roots and holds them.
func (s *Session) openRoots(roots []string, statePath string) error {
	const op = "use as project"
	if len(roots) == 0 {
		return &Error{Op: op, Err: errors.New("no root was given")}
	}
	type id struct{ dev, ino uint64 }
	seen := map[id]string{}
	for _, given := range roots {
		fail := func(err error) error { return &Error{Op: op, Path: given, Err: err} }
		p, err := filepath.Abs(given)
		if err != nil || given == "" {
			return fail(cmp.Or[error](err, fs.ErrInvalid))
		}
		if p, err = filepath.EvalSymlinks(p); err != nil {
			return fail(tree.Bare(err))
		}
		if p == "/" {
			return fail(errors.New("the whole file system cannot be a root"))
		}
		if tree.Inside(statePath, p) {
			return fail(fmt.Errorf("it holds the state directory %s", quotePath(statePath)))
		}
		if tree.Inside(p, statePath) {
			return fail(fmt.Errorf("it lies in the state directory %s", quotePath(statePath)))
		}
		for _, other := range s.meta.Roots {
			o := string(other.Path)
			switch {
			case p == o:
				return fail(errors.New("it is given twice"))
			case tree.Inside(p, o):
				return fail(fmt.Errorf("it lies in another root, %s", quotePath(o)))
			case tree.Inside(o, p):
				return fail(fmt.Errorf("it holds another root, %s", quotePath(o)))
			}
		}
		h, err := tree.OpenAbs(p, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return fail(err)
		}
		s.lower = append(s.lower, h)
		st, err := h.Stat()
		if err != nil {
			return fail(err)
		}
		if other, ok := seen[id{st.Dev, st.Ino}]; ok {
			return fail(fmt.Errorf("it is the same directory as %s", quotePath(other)))
		}
		seen[id{st.Dev, st.Ino}] = p
		if e := os.Geteuid(); e != 0 && int(st.GID) != os.Getegid() && (int(st.UID) == e || st.Perm()&0o022 != 0) {
			s.unmapped = append(s.unmapped, p)
		}
		disk, err := tree.DiskOf(h)
		if err != nil {
			return fail(err)
		}
		s.meta.Roots = append(s.meta.Roots, store.Root{Path: store.Text(p), Ino: st.Ino, Disk: disk})
	}
	return nil
}

// makeUpper makes the upper and the work directory of root i. The root of an
// overlay has the mode, owner and times of its upper directory, so that gets
// those of the project's, as far as the caller may.
func (s *Session) makeUpper(i int) error {
	for _, name := range []string{store.WorkName(i), store.UpperName(i)} {
		if err := s.makeSub(name); err != nil {
			return err
		}
	}
	up, err := s.area().OpenDir(store.UpperName(i))
	if err != nil {
		return err
	}
	defer up.Close()
	shown, err := s.shownRoot(i)
	if err != nil {
		return err
	}
	defer shown.Close()
	st, err := shown.Stat()
	if err != nil {
		return err
	}
	own, err := up.Stat()
	if err != nil {
		return err
	}
	if st.UID != own.UID || st.GID != own.GID {
		if up.Chown(st.UID, st.GID) != nil {
			_ = up.Chown(own.UID, st.GID)
		}
	}
	// An access control list matters to what is made below it, but a file system
	// without them is no reason to refuse; a commit never looks at the root's.
	if low, err := shown.OpenDir("."); err == nil {
		if x, err := low.Xattrs(); err == nil {
			_ = up.SetXattrs(x)
		}
		low.Close()
	}
	if err := up.Chmod(st.Perm()); err != nil {
		return err
	}
	if err := up.SetMtime(st.Mtime); err != nil {
		return err
	}
	if own, err = up.Stat(); err != nil {
		return err
	}
	return s.noteBase(i, own)
}

// noteBase notes what the directory of root i looked like when it was made.
func (s *Session) noteBase(i int, own tree.Stat) error {
	r := &s.meta.Roots[i]
	r.Mode, r.UID, r.GID = own.Perm(), own.UID, own.GID
	return nil
}

// shownRoot opens the directory whose mode, owner and times root i shows: the
// project's, or that of the session below.
func (s *Session) shownRoot(i int) (*tree.Handle, error) {
	for _, b := range s.below {
		if k, ok := b.Meta.RootOf(s.meta.Roots[i].Path); ok {
			return s.state.Open(b.ID+"/"+store.UpperName(k), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
	}
	return s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
}

// name fills in what follows from the session's name.
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

// rootList returns the roots with the paths at which a sandbox finds the session. The caller
// holds s.mu or s.work.
func (s *Session) rootList() []Root {
	area, list := s.areaPath(), slices.Clone(s.roots)
	for i := range list {
		list[i].Upper, list[i].Work = filepath.Join(area, store.UpperName(i)), filepath.Join(area, store.WorkName(i))
	}
	return list
}

// Open opens a session of the state directory dir and locks it until Close;
// where somebody else holds it, the error wraps ErrBusy. An empty dir means
// DefaultDir. The id may be cut short at either end, down to four characters of
// its random part, as long as it means one session only; "last" is the newest.
func Open(dir, id string) (*Session, error) { return open(dir, id, false) }

// OpenReadOnly opens a session as Open does, but does not lock it: to look at
// one that is being used. Commit, Discard and Remove are refused.
func OpenReadOnly(dir, id string) (*Session, error) { return open(dir, id, true) }

func open(dir, id string, readOnly bool) (_ *Session, err error) {
	statePath, state, err := openStateDir(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Op: "open session", Path: id, Err: fmt.Errorf("no such session: %w", fs.ErrNotExist)}
	}
	if err != nil {
		return nil, err
	}
	recoverAll(statePath, state, func(Recovered, error) bool { return true })
	s := &Session{state: state, readOnly: readOnly}
	defer func() {
		if err = public(err); err != nil {
			s.release()
		}
	}()
	name, err := store.FindSession(state, id)
	if err != nil {
		return nil, &Error{Op: "open session", Path: id, Err: err}
	}
	fail := func(err error) (*Session, error) {
		return nil, &Error{Op: "open session", Path: filepath.Join(statePath, name), Err: err}
	}
	if readOnly {
		if s.dir, err = store.OpenSession(state, name); err != nil {
			return fail(err)
		}
		who, err := store.Locked(s.dir)
		if err = store.OrGone(state, name, s.dir, err); err != nil {
			return fail(err)
		}
		s.busy = who == store.Owner
	} else if s.dir, s.lock, err = store.LockSession(state, name, store.Owner); err != nil {
		return fail(err)
	}
	s.meta, err = store.ReadMeta(s.dir)
	if err = store.OrGone(state, name, s.dir, err); err != nil {
		return fail(err)
	}
	if s.meta.On != "" && s.meta.State == store.Kept {
		if s.below, err = store.Bases(state, statePath, s.meta); err != nil {
			return fail(err)
		}
		store.CloseBases(s.below)
	}
	s.name(name, statePath)
	if !readOnly && s.interrupted() {
		if _, err = s.recover(); err != nil {
			return fail(err)
		}
	}
	if !readOnly && s.meta.State == store.Kept && s.meta.Engine == store.Copy {
		_ = s.recollect() // whoever asks for the changes is told that there are none
	}
	return s, nil
}

// List yields the sessions of the state directory dir, the oldest first. An
// empty dir means DefaultDir; one that does not exist holds no sessions. A
// session that cannot be read is yielded with an error, and with the ID and Dir
// of its Info set; the sessions after it follow.
func List(dir string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		statePath, state, err := openStateDir(dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Info{}, err)
			return
		}
		defer state.Close()
		recoverAll(statePath, state, func(Recovered, error) bool { return true })
		names, err := store.SessionNames(state)
		if err != nil {
			yield(Info{}, &Error{Op: "list sessions", Path: statePath, Err: err})
			return
		}
		type entry struct {
			info Info
			err  error
		}
		// Those that began in the same second are put in order together.
		for len(names) > 0 {
			second, _, _ := strings.Cut(names[0], "-")
			var group []entry
			for len(names) > 0 && strings.HasPrefix(names[0], second+"-") {
				info, err := readInfo(state, statePath, names[0])
				if !errors.Is(err, fs.ErrNotExist) { // else it was just removed
					group = append(group, entry{info, err})
				}
				names = names[1:]
			}
			slices.SortStableFunc(group, func(a, b entry) int { return a.info.Created.Compare(b.info.Created) })
			for _, e := range group {
				if !yield(e.info, e.err) {
					return
				}
			}
		}
	}
}

func readInfo(state *tree.Handle, statePath, name string) (Info, error) {
	info := Info{ID: name, Dir: filepath.Join(statePath, name)}
	fail := func(err error) (Info, error) {
		return info, &Error{Op: "read session", Path: info.Dir, Err: err}
	}
	marked := store.Pending(state, name)
	dir, m, err := store.OpenMeta(state, name)
	defer dir.Close()
	if err != nil {
		if err == unix.ENOENT { // not the whole session is gone
			err = errors.New("the session's data is missing")
		}
		return fail(err)
	}
	s := Session{dir: dir, meta: m}
	s.name(name, statePath)
	info = s.Info()
	who, err := store.Locked(dir)
	if err = store.OrGone(state, name, dir, err); err != nil {
		return fail(err)
	}
	info.Busy = who == store.Owner
	// It was on the list before and is after: whoever used it in between did not end yet.
	info.Interrupted = marked && who == store.Unheld && store.Pending(state, name)
	return info, nil
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

// State says what became of the session.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stateOf(s.meta.State)
}

// Unmapped returns roots that the caller may write to, and whose group is none that a user
// namespace of an ordinary user has: the kernel refuses (EOVERFLOW) to change what belongs
// to that group through an overlay. With EngineCopy it can be changed. It is known of a
// session that Create made.
func (s *Session) Unmapped() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.Engine == store.Copy {
		return nil
	}
	return slices.Clone(s.unmapped)
}

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
	info.Interrupted = !info.Busy && s.state != nil && store.Pending(s.state, s.id)
	return info
}

// Mounts returns one overlay or bind per root, to be put into a plan: each root appears
// at its own path, and what is written there goes to the session. They may need what
// Layers returns.
//
// The mounts hold paths, which are looked up again when the sandbox is set up:
// whoever can rename a root's parents decides what the sandbox finds there.
// Changes and Commit of this Session work on the directories that Create found.
func (s *Session) Mounts() []mounts.Mount {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []mounts.Mount
	if s.mem != nil {
		list = append(list, mounts.Layer(0, s.areaPath()))
	}
	for i, r := range s.rootList() {
		if s.meta.Engine == store.Copy {
			list = append(list, mounts.Bind(r.Upper, r.Path))
		} else {
			list = append(list, mounts.Overlay(r.Path, r.Upper, r.Work, s.lowerPaths(i)...))
		}
	}
	return list
}

// Close releases the session's lock and descriptors. Its changes stay. Closing
// again does nothing.
func (s *Session) Close() error {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	return nil
}

func (s *Session) release() {
	for _, h := range s.lower {
		h.Close()
	}
	s.lower = make([]*tree.Handle, len(s.lower))
	s.dropIndexes()
	if s.lock != nil {
		// Overlayfs leaves a directory that its owner cannot enter, nor remove with rm.
		for i := range s.roots {
			_ = tree.RemoveTree(s.dir, store.WorkName(i)+"/work")
		}
		_ = tree.RemoveTree(s.dir, store.ScratchName)
	}
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

// usable says why the session has no changes to work with, if so. The caller holds s.mu or
// s.work.
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

// goneName is where what the session wrote is, once it was decided to throw it away.
const goneName = "gone"

// discard throws away what the session wrote, for good. One rename decides; it needs no space on
// a full disk.
func (s *Session) discard() error {
	if err := s.book.MarkPending(); err != nil && err != unix.ENOSPC && err != unix.EDQUOT {
		return err
	}
	kept := "upper"
	if s.stored() {
		kept = tree.PackedName
	}
	err := s.dir.Rename(kept, goneName, 0)
	if err == unix.ENOENT && s.stored() {
		err = s.dir.Mkdir(goneName) // what was written was lost
	}
	if err != nil && err != unix.ENOENT && err != unix.EEXIST {
		return err
	}
	if _, err := s.finishDiscard(); err != nil {
		return err
	}
	return s.book.Unmark()
}

// finishDiscard goes on where what the session wrote was put aside, and tells so.
func (s *Session) finishDiscard() (what string, err error) {
	_, gone, err := s.dir.LstatIf(goneName)
	if err != nil {
		return "", err
	}
	if !gone && (s.meta.State != store.Discarded || s.meta.Thrown) {
		return "", nil
	}
	if gone {
		what = "the session was discarded"
		m := *s.meta
		m.State, m.Thrown, m.Dropped = store.Discarded, false, nil
		_, err := store.WriteMeta(s.dir, &m, nil)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			// What fills the disk may be what is to be removed. Its directory stays,
			// to tell what was decided.
			for i := range s.roots {
				if err := tree.RemoveTree(s.dir, goneName+"/"+filepath.Base(store.UpperName(i))); err != nil {
					return what, fmt.Errorf("remove upper: %w", err)
				}
			}
			_, err = store.WriteMeta(s.dir, &m, nil)
		}
		if err != nil {
			return what, err
		}
		s.setLoaded(&m)
	}
	for _, name := range [...]string{goneName, "upper", "work", store.MemName, tree.PackedName, copiedName, store.ScratchName, baseName} {
		if err := tree.RemoveTree(s.dir, name); err != nil {
			return what, fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return what, nil
}

// Remove discards the session and removes every trace of it, and closes it.
// That is for sessions that changed nothing, and for clearing away old ones.
func (s *Session) Remove() error {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, err := s.away()
	if err != nil {
		return err
	}
	if err := tree.RemoveTree(s.state, gone); err != nil {
		return &Error{Op: opRemove, Path: s.path, Err: err}
	}
	s.release()
	return nil
}

const opRemove = "remove session"

// away gives the session's directory another name, so that nobody sees a part of it.
// Calling it again does nothing.
func (s *Session) away() (name string, err error) {
	if s.dir == nil || s.readOnly {
		return "", &Error{Op: opRemove, Path: s.path, Err: s.closed()}
	}
	if err := s.checkDependents(); err != nil {
		return "", &Error{Op: opRemove, Path: s.path, Err: err}
	}
	name = store.GonePrefix + s.id
	if err := s.state.Rename(s.id, name, 0); err != nil && err != unix.ENOENT {
		return "", &Error{Op: opRemove, Path: s.path, Err: err}
	}
	return name, nil
}

// closed says why the session cannot be changed.
func (s *Session) closed() error {
	if s.dir == nil {
		return fs.ErrClosed
	}
	return ErrReadOnly
}
