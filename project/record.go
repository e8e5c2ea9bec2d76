//go:build linux

package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/sys"
)

// Record stores an execution, and copies of what it changed. Call it when the command has ended, before anything is
// committed.
//
// Files that are not registered yet are registered first. A file that was registered before, and is modified, deleted
// or replaced by something else, gets one backup for each day: its content before the first change. New files have
// none. Record also keeps the version before each listed change for the execution (an empty file if there was none),
// modified and deleted files first, within the limits.
//
// changes are about single objects: after a deleted directory, everything in it must follow. original opens what the
// project has at the path of a change, for example on the lower side of an overlay. It is called for Modified, Deleted
// and TypeChanged, at most twice for each, and may be nil if there are no such changes.
//
// If something fails, Record still does the rest. It joins the first errors of several files, and Recorded says what
// exists.
func (r *Registry) Record(ctx context.Context, e Execution, changes []Change, original func(Change) (*os.File, error)) (Recorded, error) {
	w := &recorder{r: r, ctx: ctx, original: original, mostFile: r.o.BeforeFile, mostAll: r.o.BeforeAll}
	return w.record(e, changes)
}

func (w *recorder) record(e Execution, changes []Change) (Recorded, error) {
	r := w.r
	if e.ID == "" {
		t := e.Began
		if t.IsZero() {
			t = r.now()
		}
		e.ID = newExecution(t)
	}
	if !isExecution(e.ID) {
		return Recorded{}, &Error{"record", e.ID, errors.New("not an execution's id")}
	}
	w.rec, w.out = e.record(), Recorded{ID: e.ID}
	if len(changes) == 0 {
		return w.out, r.append(&op{Execution: w.rec})
	}
	w.roots, w.date = map[string]int{}, r.now().Local().Format(dateLayout)
	for i, root := range e.Roots {
		w.roots[root] = i
	}
	for _, c := range changes {
		w.take(c)
	}
	if err := w.register(); err != nil {
		w.failed(err) // without ids there are no backups; the rest goes on
	} else {
		w.backups()
	}
	w.befores()
	w.list()
	if err := r.appendFiles(op{Execution: w.rec}, w.files); err != nil {
		w.failed(err)
	}
	return w.out, w.err()
}

// A recorder is one call of Record.
type recorder struct {
	r        *Registry
	ctx      context.Context
	rec      *executionRecord
	original func(Change) (*os.File, error)
	roots    map[string]int
	date     string

	mostFile, mostAll int64 // of before-versions
	flushed           bool  // they are on disk when record returns

	items []item
	files []fileOp
	out   Recorded
	errs  []error
	more  int // errors that are not in errs
}

// An item is a change, and what is stored about it.
type item struct {
	Change
	root   int
	id     uint64 // zero: it is not registered
	known  bool   // it was registered before this execution
	listed bool
	backup string // made by this execution: a name
	before string // a name
}

func (w *recorder) failed(err error) {
	const most = 5
	if slices.ContainsFunc(w.errs, func(e error) bool { return e.Error() == err.Error() }) {
		return // a duplicate
	}
	if len(w.errs) < most {
		w.errs = append(w.errs, err)
	} else {
		w.more++
	}
}

func (w *recorder) err() error {
	if w.more > 0 {
		return errors.Join(append(w.errs, fmt.Errorf("and %d more errors", w.more))...)
	}
	return errors.Join(w.errs...)
}

func (w *recorder) take(c Change) {
	if !c.Kind.Valid() || !filepath.IsAbs(c.Root) || !clean(c.Root) || !goodPath(c.Path) && c.Path != "." {
		w.failed(&Error{"record change", filepath.Join(c.Root, c.Path), errors.New("not a change of a project")})
		return
	}
	if c.Path == "." {
		return // the root itself: no file, and nothing to have back
	}
	i, ok := w.roots[c.Root]
	if !ok {
		i = len(w.rec.Roots)
		w.roots[c.Root] = i
		w.rec.Roots = append(w.rec.Roots, text(c.Root))
	}
	w.items = append(w.items, item{Change: c, root: i})
}

// registerPart is how many files are registered in one transaction, so that other processes
// can use the database in between.
const registerPart = 10_000

// register finds the ids of files, and gives new ids to files that have none.
func (w *recorder) register() error {
	lacking := 0
	var unknown []int
	find := func(tx *bbolt.Tx) error {
		for _, i := range unknown {
			it := &w.items[i]
			if it.id, it.known = idOf(tx, it.Name()); !it.known {
				lacking++
			}
		}
		return nil
	}
	for i, it := range w.items {
		if (it.wasFile() || it.isFile()) && len(it.Name()) <= bbolt.MaxKeySize { // no system call takes a longer one
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// Ids never change, so what the journal still holds does not matter.
	if err := w.r.viewAsIs(find); err != nil {
		return err
	}
	unknown = slices.DeleteFunc(unknown, func(i int) bool { return w.items[i].known })
	for part := range slices.Chunk(unknown, registerPart) {
		if err := canceled(w.ctx, "register files of", w.items[part[0]].Root); err != nil {
			return err
		}
		now := w.r.now()
		err := w.r.update(func(tx *bbolt.Tx) error {
			seen := map[string]bool{}
			for _, i := range part {
				it := &w.items[i]
				if !seen[it.Root] {
					seen[it.Root] = true
					if err := see(tx, it.Root, now, false); err != nil {
						return err
					}
				}
				rec := &fileRecord{Path: text(it.Name()), Registered: nanos(now), Mode: bits(it.Mode)}
				var err error
				if it.id, it.known, err = w.r.register(tx, it.Root, rec); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// open opens the project's version, if it is a regular file.
func (w *recorder) open(c Change) (*os.File, unix.Stat_t, error) {
	if w.original == nil {
		return nil, unix.Stat_t{}, errors.New("BUG: there is no function that opens the original")
	}
	f, err := w.original(c)
	if err != nil {
		return nil, unix.Stat_t{}, sys.Bare(err)
	}
	st, err := sys.Regular(f)
	if err != nil {
		_ = f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// backups copies the originals of files that were registered before.
func (w *recorder) backups() {
	var v *vault
	for i := range w.items {
		it := &w.items[i]
		if !it.known || !it.wasFile() {
			continue
		}
		if err := canceled(w.ctx, "back up", it.Name()); err != nil {
			w.failed(err)
			break
		}
		if v == nil {
			d, err := w.r.copies(editedName, true)
			if err != nil {
				w.failed(err)
				return
			}
			v = &vault{d: d}
			defer v.close()
		}
		w.backup(v, it)
	}
	if v == nil {
		return
	}
	if err := v.flush(); err != nil {
		w.failed(wrap("back up to", v.d.path, err))
		// The copies may not be on disk, so none is recorded as a backup.
		w.files, w.out.Backups = nil, nil
		return
	}
	order := make(map[string]int, len(w.items))
	for i := range w.items {
		order[w.items[i].Name()] = i
	}
	slices.SortStableFunc(w.out.Backups, func(a, b Backup) int { return order[a.Path] - order[b.Path] })
}

func (w *recorder) backup(v *vault, it *item) {
	name := backupName(it.id, w.date, it.Path)
	path := filepath.Join(v.d.path, name)
	note := func(there bool, size int64, mode uint32, owner *ownerRecord) {
		w.files = append(w.files, fileOp{ID: it.id, Date: w.date, Copy: text(path), Backup: &backupRecord{
			Name: text(name), Size: size, Mode: mode, Made: nanos(w.r.now()), Whose: w.rec.ID, Owner: owner,
		}})
		w.out.Backups = append(w.out.Backups, Backup{
			Path: it.Name(), Copy: path, Date: w.date, Size: size, Mode: unbits(mode), Execution: w.rec.ID, Made: !there,
		})
	}
	size, ok, err := v.has(name)
	if err != nil {
		w.failed(wrap("back up to", path, err))
		return
	}
	if ok { // there is one for each file and day
		note(true, size, bits(it.OldMode), nil)
		return
	}
	f, st, err := w.open(it.Change)
	if err != nil {
		w.failed(&Error{"back up", it.Name(), err})
		return
	}
	defer f.Close()
	if st.Size > w.r.o.BackupFile {
		w.out.Omitted = append(w.out.Omitted, Omitted{it.Name(), "backup", &tooLarge{"backups", st.Size, w.r.o.BackupFile}})
		return
	}
	v.add(w.ctx, name, f, func(there bool, size int64, err error) {
		if err != nil {
			w.failed(wrap("back up to", path, err))
			return
		}
		if !there {
			it.backup = name
		}
		note(there, size, st.Mode&0o777, &ownerRecord{st.Uid, st.Gid})
	})
}

// befores keeps the versions before the changes that are listed.
func (w *recorder) befores() {
	// If there are too many, those that cannot be made again are listed first.
	order := make([]int, 0, len(w.items))
	for _, first := range [...]bool{true, false} {
		for i, it := range w.items {
			if (it.Kind != Added) == first {
				order = append(order, i)
			}
		}
	}
	listed := order[:min(len(order), w.r.o.Changes)]
	listed = listed[:fitting(listed, func(i int) int { return len(w.items[i].Path) })]
	for _, i := range listed {
		w.items[i].listed = true
	}
	w.rec.More += len(order) - len(listed)

	var temp, d, edited *dir
	defer func() {
		if err := w.flush(temp, d); err != nil {
			w.failed(err)
		}
		temp.close()
		d.close()
		edited.close()
	}()
	left := w.mostAll
	for n, i := range order {
		it := &w.items[i]
		if !it.wasFile() && (it.Kind != Added || !it.isFile()) {
			continue
		}
		if !it.listed {
			if it.wasFile() {
				w.omit(it, fmt.Errorf("the execution has more than %d changes", len(listed)))
			}
			continue
		}
		if err := canceled(w.ctx, "keep version of", it.Name()); err != nil {
			w.failed(err)
			return
		}
		if d == nil {
			var err error
			if temp, err = w.r.copies(tempName, true); err != nil {
				w.failed(err)
				return
			}
			if d, err = temp.sub(w.rec.ID, true); err != nil {
				w.failed(homedir.Elsewhere(wrap("make directory", filepath.Join(w.r.o.Cache, tempName, w.rec.ID), err), w.r.cacheVariable))
				return
			}
			edited, _ = w.r.copies(editedName, false) // without it files are copied
		}
		name := fitName(strconv.Itoa(n)+"-", filepath.Base(it.Path))
		if it.backup != "" && edited != nil && unix.Linkat(int(edited.fd), it.backup, int(d.fd), name, 0) == nil {
			it.before = name // the same content, without more space
			continue
		}
		size, err := w.before(d, name, it, left)
		if e, ok := errors.AsType[*tooLarge](err); ok {
			w.omit(it, e)
			continue
		}
		if err != nil {
			w.failed(wrap("keep version of", it.Name(), err))
			continue
		}
		it.before = name
		left -= size
	}
}

// flush waits until the names of before-versions, and the directory of them, are on disk, if that is asked for.
func (w *recorder) flush(temp, d *dir) error {
	if !w.flushed || d == nil {
		return nil
	}
	if err := d.sync(); err != nil {
		return wrap("keep versions in", d.path, err)
	}
	return wrap("keep versions in", temp.path, temp.sync())
}

func (w *recorder) omit(it *item, why error) {
	w.out.Omitted = append(w.out.Omitted, Omitted{it.Name(), "before-version", why})
}

func (w *recorder) before(d *dir, name string, it *item, left int64) (size int64, err error) {
	var src *os.File
	if it.wasFile() {
		f, st, err := w.open(it.Change)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if st.Size > w.mostFile {
			return 0, &tooLarge{"before-versions", st.Size, w.mostFile}
		}
		if st.Size > left {
			return 0, &tooLarge{"before-versions of one execution", st.Size + w.mostAll - left, w.mostAll}
		}
		src = f
	}
	dst, err := d.file(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return 0, err
	}
	defer dst.Close()
	if src == nil {
		return 0, nil
	}
	if size, err = sys.CopyData(w.ctx, dst, src); err == nil && w.flushed {
		err = sys.Fsync(int(dst.Fd()))
	}
	if err != nil {
		_ = d.unlink(name, 0)
	}
	return size, err
}

// list adds the listed changes to the record.
func (w *recorder) list() {
	for _, it := range w.items {
		if it.listed {
			w.rec.Changes = append(w.rec.Changes, changeRecord{
				Kind: it.Kind, Root: it.root, Path: text(it.Path), Mode: bits(it.Mode), OldMode: bits(it.OldMode),
				Size: it.Size, OldSize: it.OldSize, Before: text(it.before), Runs: text(it.Runs),
			})
		}
	}
}

// Committed records that all or some changes of a session are now in the project. Files that the project no longer has
// are marked as deleted, as long as there is a backup.
func (r *Registry) Committed(ctx context.Context, session string, all bool, changes []Change) error {
	return r.settle(ctx, session, stateOf(StateCommitted, all), changes)
}

// Undone records that a commit of a session was undone: changes, or all that the session had committed, were removed
// from the project again.
func (r *Registry) Undone(ctx context.Context, session string, all bool, changes []Change) error {
	return r.settle(ctx, session, stateOf(StateKept, all), changes)
}

// stateOf is the state of a session after a step, or StatePart if the step was not about all changes.
func stateOf(done string, all bool) string {
	if !all {
		return StatePart
	}
	return done
}

// Discarded records that the changes of a session were discarded. Files that were registered because of them, and never
// existed in the project, are forgotten.
func (r *Registry) Discarded(ctx context.Context, session string, changes []Change) error {
	return r.settle(ctx, session, StateDiscarded, changes)
}

// Dropped records that some changes of a session were dropped, whatever happens to the others. It marks the changes in
// the executions that made them. It forgets files as Discarded does.
func (r *Registry) Dropped(ctx context.Context, session string, changes []Change) error {
	if err := r.drop(dropOp{Session: text(session)}, changes); err != nil {
		return err
	}
	return r.settle(ctx, "", "", changes)
}

// Undropped records that a drop or a discard was undone: changes are those that the session has now, and they are
// marked no longer. If all, nothing of the session is in the project.
func (r *Registry) Undropped(ctx context.Context, session string, all bool, changes []Change) error {
	if err := r.drop(dropOp{Session: text(session), Back: true}, changes); err != nil {
		return err
	}
	return r.Undone(ctx, session, all, nil) // in the project nothing has changed
}

// drop appends ops like o for the changes.
func (r *Registry) drop(o dropOp, changes []Change) error {
	o.Time = nanos(r.now())
	for rest := changes; len(rest) > 0; {
		n := fitting(rest, func(c Change) int { return len(c.Root) + len(c.Path) })
		o.Names = nil
		for _, c := range rest[:n] {
			o.Names = append(o.Names, text(c.Name()))
		}
		if err := r.append(&op{Drop: &o}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// settle records what the project now has at the paths of the changes, whatever happened before. For a deleted
// directory it also looks at the registered files below it.
func (r *Registry) settle(ctx context.Context, session, state string, changes []Change) error {
	now := nanos(r.now())
	var o op
	var files []fileOp
	if session != "" {
		o.Settle = &settleOp{text(session), text(state), now}
	}
	roots := map[string]*looker{}
	defer func() {
		for _, d := range roots {
			d.close()
		}
	}()
	note := func(d *looker, root, path string) {
		f := fileOp{Path: text(filepath.Join(root, path)), Time: now}
		if st, ok := d.look(path); ok {
			f.There, f.Modified, f.Mode = true, st.Mtim.Nano(), st.Mode&0o777
		}
		files = append(files, f)
	}
	for _, c := range changes {
		if err := canceled(ctx, "look at", c.Name()); err != nil {
			return err
		}
		if !filepath.IsAbs(c.Root) || !clean(c.Root) || !goodPath(c.Path) {
			continue
		}
		d, ok := roots[c.Root]
		if !ok {
			root, _ := openRoot(c.Root) // nil: the root is gone, and so are its files
			d = &looker{root: root, fd: sys.None}
			roots[c.Root] = d
		}
		note(d, c.Root, c.Path)
		// A directory stands for what was in it.
		if c.Kind != Added && c.Kind != Modified && (c.OldMode.IsDir() || c.Mode.IsDir()) {
			for f, err := range r.Files(c.Name()) {
				if err == nil && f.Path != c.Name() {
					note(d, c.Root, f.Path[len(strings.TrimSuffix(c.Root, "/"))+1:])
				}
			}
		}
	}
	if o.Settle == nil && len(files) == 0 {
		return nil
	}
	return r.appendFiles(o, files)
}

// appendFiles appends an op about files. If there are many files, it appends several.
func (r *Registry) appendFiles(o op, files []fileOp) error {
	for {
		n := fitting(files, func(f fileOp) int { return len(f.Path) + len(f.Copy) })
		if n == len(files) {
			o.Files = files
			return r.append(&o)
		}
		if err := r.append(&op{Files: files[:n]}); err != nil {
			return err
		}
		files = files[n:]
	}
}

// fitting is how many elements of a list fit into a line of the journal, at least one. name returns the length of the
// names of an element.
func fitting[T any](list []T, name func(T) int) int {
	n, length := 0, 0
	for ; n < min(len(list), registerPart); n++ {
		if length += name(list[n]); length > namesMost && n > 0 {
			break
		}
	}
	return n
}

// openRoot opens the top of a project, whoever owns it.
func openRoot(root string) (*dir, error) {
	fd, err := sys.Openat2(unix.AT_FDCWD, root, unix.O_RDONLY|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, err
	}
	return newDir(fd, root), nil
}
