//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Options describe a new session. The zero Options are an error: a session has at least one root.
type Options struct {
	// Roots are the directories whose changes are kept apart. None: an error. They are made absolute, and their
	// symbolic links are resolved. A root that is "/", lies in another root, or contains the state directory is an
	// error.
	Roots []string

	// Command is the command that will run; List shows it. Nil: unknown.
	Command []string

	// Dir is the state directory. It is created with mode 0700 if it is missing; it is an error if it is not the
	// caller's own. Empty: DefaultDir.
	Dir string

	// On is another session of the state directory, named as for Open, on which this one is based: the command sees
	// the project with the changes of that session. The roots must be that session's, or some of them. It must not
	// be in use, and cannot be written to as long as this one has changes. Sessions with EngineTmpfs or EngineCopy have
	// to be committed first. Empty: the project itself.
	On string

	// Engine says how writes are kept apart from the project. Zero: chosen by the file systems, see Info.Engine.
	Engine Engine

	// Protect are patterns of paths whose changes are held back, like files that run later (Change.Runs), as long
	// as this session exists. They are absolute, with "*", "?", "[…]" and "**", and without symbolic links. A
	// pattern that matches a directory also covers everything below it. Nil: none.
	Protect []string

	// Spare is what another session left (Session.Retire). Create uses it if it is Ready and has the same roots,
	// and removes it otherwise. It then belongs to Create. Nil: everything is made anew.
	Spare *Spare
}

// Create creates a session. It makes a few system calls, however large the roots are, and does not wait for a disk.
// (With EngineCopy it copies the project.) The session is locked until Close.
func Create(o Options) (*Session, error) { return CreateContext(context.Background(), o) }

// CreateContext is like Create, but stops if ctx ends: with EngineCopy, copying the project can take long.
func CreateContext(ctx context.Context, o Options) (_ *Session, err error) {
	// This is long because it contains the order of all steps.
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
	if err := s.meta.AddProtected(o.Protect); err != nil {
		return nil, &Error{Op: "create session", Path: statePath, Err: err}
	}

	made := ""
	defer func() {
		if err != nil && made != "" {
			s.dir.Close()
			s.lock.Close()
			s.dir, s.lock = nil, nil
			_ = store.RemoveClosed(state, made)
		}
	}()
	fail := func(op string, err error) (*Session, error) {
		return nil, &Error{Op: op, Path: filepath.Join(statePath, made), Err: err}
	}
	// The directory gets its name when it is complete, so that List and Open never see half of one.
	if spare != nil && spare.ready && spare.fits(o.On, o.Engine, state, s.meta.Roots) {
		made = spare.name
		err, spare = spare.take(s), nil
	} else {
		made, s.dir, s.lock, err = store.MakeDir(state)
	}
	if err != nil {
		return fail(opMake, err)
	}
	// The time of the beginning is that of a file: the kernel's clock for files is behind the one that time.Now
	// reads, and a file that is changed right after this must not seem older.
	st, err := s.lock.Stat()
	if err != nil {
		return fail("lock session", err)
	}
	if s.meta.Created, err = beginning(st); err != nil {
		return fail(opMake, err)
	}
	if err = s.begin(o); err != nil {
		return fail(opMake, err)
	}
	if err = counted(ctx, s.makeUppers); err != nil {
		return fail(opUpper, err)
	}
	s.beginUnsynced(s.markFirst)
	s.armed = s.stored()
	if err = store.WriteFirst(s.dir, s.meta, s.reused); err != nil {
		return fail(opMake, err)
	}
	name, err := giveName(state, made, s.meta.Created)
	if err != nil {
		return fail("name session directory", err)
	}
	made = name
	s.name(name, statePath)
	s.fresh = true
	s.holdIndexes()
	return s, nil
}

// makeUppers makes the directories or copies that the command will write to, for each root.
func (s *Session) makeUppers(ctx context.Context) error {
	if s.meta.Engine == store.Copy {
		if err := s.awaitSince(ctx); err != nil {
			return err
		}
	}
	for i := range s.meta.Roots {
		if s.meta.Engine != store.Copy {
			if err := s.makeUpper(i); err != nil {
				return err
			}
			continue
		}
		if err := s.makeCopy(ctx, i); err != nil {
			return err
		}
		s.noteBase(i, s.copies[i].Own.Stat)
	}
	if s.meta.Engine == store.Copy {
		return s.noteCopies()
	}
	return s.awaitChanged(ctx)
}

// giveName gives the complete directory of a session a unique name.
func giveName(state *tree.Handle, made string, created time.Time) (string, error) {
	for {
		name := store.NewName(created)
		err := state.Rename(made, name, unix.RENAME_NOREPLACE)
		if err == unix.EINVAL { // a file system that cannot do it
			err = state.Rename(made, name, 0)
		}
		if err != unix.EEXIST && err != unix.ENOTEMPTY {
			return name, err
		}
	}
}

// openRoots checks the roots, and keeps them open.
func (s *Session) openRoots(roots []string, statePath string) error {
	const op = opUse
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
			return fail(sys.Bare(err))
		}
		if p == "/" {
			return fail(errors.New("the whole file system cannot be a root"))
		}
		if paths.Inside(statePath, p) {
			return fail(fmt.Errorf("it contains the state directory %s", escape.Quote(statePath)))
		}
		if paths.Inside(p, statePath) {
			return fail(fmt.Errorf("it lies in the state directory %s", escape.Quote(statePath)))
		}
		for _, other := range s.meta.Roots {
			o := string(other.Path)
			switch {
			case p == o:
				return fail(errors.New("it is given twice"))
			case paths.Inside(p, o):
				return fail(fmt.Errorf("it lies in another root, %s", escape.Quote(o)))
			case paths.Inside(o, p):
				return fail(fmt.Errorf("it contains another root, %s", escape.Quote(o)))
			}
		}
		h, err := tree.OpenAbs(p, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return fail(err)
		}
		s.lower = append(s.lower, h)
		if sys.InKernelFS(h.FD) {
			return fail(sys.ErrKernelFS)
		}
		st, err := h.Stat()
		if err != nil {
			return fail(err)
		}
		if other, ok := seen[id{st.Dev, st.Ino}]; ok {
			return fail(fmt.Errorf("it is the same directory as %s", escape.Quote(other)))
		}
		seen[id{st.Dev, st.Ino}] = p
		if e := os.Geteuid(); e != 0 && int(st.GID) != os.Getegid() && (int(st.UID) == e || st.Perm()&0o022 != 0) {
			s.unmapped = append(s.unmapped, p)
		}
		disk, err := tree.DiskOf(h)
		if err != nil {
			return fail(err)
		}
		s.meta.Roots = append(s.meta.Roots, store.Root{Path: store.Text(p), Ino: st.Ino, Disk: disk.ID, Birth: disk.Birth})
	}
	return nil
}

// makeUpper makes the upper and the work directory of root i. The root of an overlay has the mode, owner and times of
// its upper directory; so that directory gets those of the project's, as far as the caller may set them.
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
	// An access control list applies to new files in the directory. A file system without such lists is not an
	// error; a commit never looks at the root's list.
	if low, err := shown.OpenDir("."); err == nil {
		if x, err := low.Xattrs(); err == nil {
			_ = up.SetXattrs(x)
		}
		low.Close()
	}
	project := st
	if len(s.below) > 0 {
		if project, err = s.projectRoot(i); err != nil {
			return err
		}
	}
	if err := s.noteSince(project); err != nil {
		return err
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
	s.noteBase(i, own)
	return nil
}

// noteBase records the state of root i's upper directory when it was made.
func (s *Session) noteBase(i int, own tree.Stat) {
	r := &s.meta.Roots[i]
	r.Mode, r.UID, r.GID = own.Perm(), own.UID, own.GID
}

// shownRoot opens the directory whose mode, owner and times root i shows: the project's, or that of the session below.
func (s *Session) shownRoot(i int) (*tree.Handle, error) {
	for _, b := range s.below {
		if k, ok := b.Meta.RootOf(s.meta.Roots[i].Path); ok {
			return s.state.Open(b.ID+"/"+store.UpperName(k), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
	}
	return s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
}

// begin makes what the session's engine needs before a command can run.
func (s *Session) begin(o Options) error {
	if s.reused {
		s.meta.Engine = store.Overlay // which did for the same roots
	} else if o.Engine != 0 {
		if o.Engine == EngineOverlay {
			if ok, err := sys.TellsTypes(s.dir.FD); err != nil || !ok {
				return cmp.Or(err, errNoTypes)
			}
		}
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
