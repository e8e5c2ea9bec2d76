//go:build linux

package fanotify

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// watches is the engine Inotify: each directory has a watch, through fsnotify.
//
// fsnotify identifies watches by their paths, and follows links. So every directory is held open, and its path is that
// of its descriptor in /proc: nobody can put something else there, and it stays valid when the directory is renamed.
// fsnotify does not say whether something is a directory: opening it tells. It has the old name of a renamed object
// only in the text of the event.
type watches struct {
	fs    *fsnotify.Watcher
	halt  chan struct{} // closed: stop was called
	quit  chan struct{} // closed: abort was called
	once  [2]sync.Once
	wake  sys.FD // an eventfd: one of them was
	roots []root

	places
	tops  []*place
	byFD  map[int]*watch
	byID  map[id]*watch
	loose []*watch // have no known place, until a queued event tells it

	// renames are the first halves, by fsnotify's name of the path, of renames whose second half did not come yet.
	renames map[string]half
	listed  []*watch // with names that were reported, and for which events may still be queued
	dead    []*watch // removed, but events for their descriptors may still be queued

	bar    bar  // for what waits until all queued events have come
	mend   file // the same after an overflow
	finish file // the same for stop

	before [2]string // the last rename

	most     int // so many descriptors at most
	tasks    []task
	start    int64  // when the watcher began, nanoseconds since 1970
	quiet    int64  // when nothing was queued
	lost     bool   // the queue was full; events until that of mend are ignored
	rounds   int    // how often it was full, since heal
	scanned  int    // present paths were reported; until this bar, earlier renames may come
	holes    bool   // there are directories without a watch
	denied   bool   // there are some that may not be read
	restless bool   // there were events since the last rest
	early    []item // errors before the first iteration
	ending   bool   // stop was noticed
	sweep    bool
	swept    bool
	done     bool         // only tasks are left
	check    *time.Ticker // nil until the first event is waited for
}

// A watch is a directory that is watched.
type watch struct {
	place
	fd     sys.FD // O_PATH
	id     id
	listed map[string]struct{} // names that were reported because they were found by listing
	names  nameSet
	batch  int // the serial number of the bar after which it is forgotten
}

// An id identifies a directory. While that is held open, nothing else has the id.
type id struct{ dev, ino uint64 }

// half is the first half of a rename.
type half struct {
	in    *watch
	name  string
	root  int
	path  string
	dir   bool
	batch int
}

// A file is one that nobody else has. Changing it makes an event that comes after all events that were queued before.
type file struct {
	fd      sys.FD // a memfd; None until it is needed
	name    string
	pending bool // it was changed, and the event did not come: it may be queued, or lost
}

// A bar is a file, and what waits for its event.
type bar struct {
	file
	serial int   // how often it was changed
	fresh  bool  // there were events since
	sent   bool  // it was changed, and the event did not come yet
	at     int64 // when
}

// idle is how often the roots are checked, because inotify does not report the removal of a
// directory that somebody holds open.
const idle = 2 * time.Second

func newWatches(roots []root, o Options) (_ *watches, err error) {
	// Without a buffer: events and overflows come through two channels, and are in order only if
	// each is handed over before the next.
	fs, err := fsnotify.NewBufferedWatcher(0)
	if err != nil {
		if errors.Is(err, unix.EMFILE) {
			err = &limitError{unix.EMFILE, "too many watchers: raise /proc/sys/fs/inotify/max_user_instances, or ulimit -n"}
		}
		return nil, &Error{Op: "inotify_init", Err: err}
	}
	w := &watches{
		fs: fs, halt: make(chan struct{}), quit: make(chan struct{}), sweep: o.Sweep,
		byFD: make(map[int]*watch), byID: make(map[id]*watch), renames: make(map[string]half),
		start: earliest(),
	}
	w.quiet = w.start
	w.bar.fd, w.mend.fd, w.finish.fd = sys.None, sys.None, sys.None
	w.most = mostWatches()
	w.wake = sys.None
	defer func() {
		if err != nil {
			w.roots = nil // the caller's still
			go w.close()
		}
	}()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &Error{Op: "eventfd", Err: err}
	}
	w.wake = sys.FD(wake)
	for i := range roots {
		r := &roots[i]
		d := &watch{fd: sys.None, id: id{r.dev, r.ino}}
		d.place.root, d.place.watch = i, d
		fd, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, &Error{Op: "watch", Path: r.name, Err: err}
		}
		d.fd = sys.FD(fd)
		w.tops = append(w.tops, &d.place)
		if err := w.add(d); err != nil {
			d.fd.Close()
			return nil, &Error{Op: "watch", Path: r.name, Err: err}
		}
		w.roots = roots[:i+1]
		w.tasks = append(w.tasks, task{root: i, place: &d.place, since: never})
	}
	// Everything that exists now has to be watched before New returns.
	w.roots = roots
	var quiet out
	for len(w.tasks) > 0 && !w.holes {
		w.task(&quiet)
	}
	for _, it := range quiet.items {
		if _, ok := errors.AsType[*limitError](it.err); ok {
			return nil, it.err
		}
	}
	w.early = quiet.items
	return w, nil
}

// mostWatches is half of the descriptors that the process may have, because somebody who can
// make directories must not use up all of them.
func mostWatches() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 512
	}
	return int(min(lim.Cur, 1<<30) / 2)
}

// never is later than any time of a file, always is earlier.
const (
	never  = 1<<63 - 1
	always = 1
)

func (w *watches) stop()  { w.once[0].Do(func() { w.tell(w.halt) }) }
func (w *watches) abort() { w.once[1].Do(func() { w.tell(w.quit) }) }

func (w *watches) tell(c chan struct{}) {
	close(c)
	one := [8]byte{1}
	_, _ = unix.Write(int(w.wake), one[:])
}

// rest lets events gather in the kernel's queue. Otherwise fsnotify would read each one as soon as it comes, which
// takes many times as long. fsnotify waits because nobody receives what it has read. rest waits in a system call,
// because with a timer the runtime would poll for events meanwhile.
func (w *watches) rest() {
	fds := [...]unix.PollFd{{Fd: int32(w.wake), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds[:], int(gather/time.Millisecond))
}

func (w *watches) close() {
	_ = w.fs.Close()
	for _, d := range w.byFD {
		d.fd.Close()
	}
	for _, d := range w.dead {
		d.fd.Close()
	}
	w.bar.fd.Close()
	w.mend.fd.Close()
	w.finish.fd.Close()
	w.wake.Close()
	closeRoots(w.roots)
	if w.check != nil {
		w.check.Stop()
	}
}

func (w *watches) add(d *watch) error {
	if len(w.byFD)+len(w.dead) >= w.most {
		return &limitError{unix.EMFILE, "too many directories: raise ulimit -n"}
	}
	err := w.fs.Add(sys.ProcPath(int(d.fd)))
	switch {
	case err == nil:
		w.byFD[int(d.fd)] = d
		w.byID[d.id] = d
		return nil
	case errors.Is(err, unix.ENOSPC):
		return &limitError{unix.ENOSPC, "too many directories: raise /proc/sys/fs/inotify/max_user_watches"}
	}
	return err
}

// forget ends the watch of d, and of all below it.
func (w *watches) forget(d *watch) {
	w.places.take(&d.place)
	for _, p := range d.all() {
		d := p.watch
		if w.byFD[int(d.fd)] != d {
			continue
		}
		_ = w.fs.Remove(sys.ProcPath(int(d.fd))) // it may have none any more
		delete(w.byFD, int(d.fd))
		if w.byID[d.id] == d {
			delete(w.byID, d.id)
		}
		d.batch = w.bar.serial + 1
		w.dead = append(w.dead, d)
	}
}

// loosen removes d from its place. A queued event may tell its new one.
func (w *watches) loosen(d *watch) {
	w.places.take(&d.place)
	d.batch = w.bar.serial + 1
	w.loose = append(w.loose, d)
}

func (w *watches) step(o *out) {
	switch {
	case len(w.early) > 0:
		o.items, w.early = append(o.items, w.early...), nil
		return
	case len(w.tasks) > 0:
		w.task(o)
		return
	case w.done:
		o.ended = true
		return
	}
	halt := w.halt
	if w.ending {
		halt = nil
	}
	select {
	case <-halt: // first: there may always be events
		w.stopping(o)
		return
	default:
	}
	for range 4 {
		select {
		case ev, ok := <-w.fs.Events:
			w.take(ev, ok, o)
			return
		case err, ok := <-w.fs.Errors:
			w.failed(err, ok, o)
			return
		default:
			runtime.Gosched() // fsnotify may have read more
		}
	}
	if w.restless && !w.ending {
		w.restless = false
		w.rest()
		return
	}
	if w.bar.fresh && !w.bar.sent && !w.lost {
		w.bar.serial++
		w.bar.at = earliest()
		w.bar.sent, w.bar.fresh = true, false
		w.send(&w.bar.file, o)
	}
	if w.check == nil {
		w.check = time.NewTicker(idle)
	}
	select {
	case ev, ok := <-w.fs.Events:
		w.take(ev, ok, o)
	case err, ok := <-w.fs.Errors:
		w.failed(err, ok, o)
	case <-halt:
		w.stopping(o)
	case <-w.quit:
		o.ended = true
	case <-w.check.C:
		for i := range w.roots {
			if !w.roots[i].gone && w.roots[i].removed() {
				gone(w.roots, i, o)
			}
		}
	}
}

func (w *watches) stopping(o *out) {
	w.ending = true
	if w.lost {
		w.heal(o)
		return
	}
	w.send(&w.finish, o)
}

// send changes a file. If the event of an earlier change may still be queued, it takes a new
// file, so that the two events differ.
func (w *watches) send(f *file, o *out) {
	if f.pending {
		_ = w.fs.Remove(f.name)
		w.dead = append(w.dead, &watch{fd: f.fd, batch: w.bar.serial + 1})
		*f = file{fd: sys.None}
	}
	err := w.open(f)
	if err == nil {
		err = unix.Fchmod(int(f.fd), 0o600)
	}
	if err != nil {
		o.error(&Error{Op: "watch", Err: err})
		o.ended = true
	}
	f.pending = true
}

func (w *watches) open(f *file) error {
	if f.fd != sys.None {
		return nil
	}
	fd, err := sys.MemFile("nsrun-watch")
	if err != nil {
		return err
	}
	f.fd, f.name = fd, sys.ProcPath(int(fd))
	return w.fs.Add(f.name)
}

// reached is called after the event of the bar: all events that were queued before it have come.
func (w *watches) reached(o *out) {
	serial := w.bar.serial
	w.bar.sent = false
	w.quiet = w.bar.at
	if w.scanned <= serial {
		w.scanned = 0
	}
	for name, h := range w.renames {
		if h.batch <= serial {
			w.left(name, h, o)
		}
	}
	w.loose = slices.DeleteFunc(w.loose, func(d *watch) bool {
		if d.batch > serial {
			return false
		}
		if d.parent == nil {
			w.forget(d)
		}
		return true
	})
	w.listed = slices.DeleteFunc(w.listed, func(d *watch) bool {
		if d.batch <= serial {
			d.listed = nil
		}
		return d.listed == nil
	})
	w.dead = slices.DeleteFunc(w.dead, func(d *watch) bool {
		if d.batch <= serial {
			d.fd.Close()
		}
		return d.fd == sys.None
	})
	if len(w.loose)+len(w.listed)+len(w.dead)+len(w.renames) > 0 {
		w.bar.fresh = true
	}
}

// vacate is called before something is reported at a name. What was there before and was renamed is at no watched
// place: the kernel tells of both halves of a rename before anything else can be at the old name.
func (w *watches) vacate(d *watch, name string, o *out) {
	key := sys.ProcPath(int(d.fd)) + "/" + name
	if h, ok := w.renames[key]; ok {
		w.left(key, h, o)
	}
}

// left reports that something was renamed to a place that is not watched.
func (w *watches) left(name string, h half, o *out) {
	delete(w.renames, name)
	o.event(Event{Op: Removed, Root: w.roots[h.root].name, Path: h.path, Dir: h.dir, Time: time.Now()})
}

// end is called when all events that were queued at the time of stop have come.
func (w *watches) end(o *out) {
	for name, h := range w.renames {
		w.left(name, h, o)
	}
	if (w.sweep || w.holes) && !w.swept {
		w.swept = true
		for i := range w.roots {
			if !w.roots[i].gone {
				w.tasks = append(w.tasks, task{root: i, path: ".", since: w.start, sweep: w.sweep})
			}
		}
		w.holes = false
	}
	w.done = true
}

func (w *watches) failed(err error, ok bool, o *out) {
	switch {
	case !ok:
		o.ended = true
	case errors.Is(err, fsnotify.ErrEventOverflow):
		w.overflow(o)
	default:
		o.error(&Error{Op: "read events", Err: err})
	}
}

// overflow is called if the queue was full. Events are ignored until it was emptied once,
// because others between them were lost. A scan then finds the changes.
func (w *watches) overflow(o *out) {
	const most = 8 // whoever goes on filling the queue must not keep us
	w.lost = true
	if w.rounds++; w.ending || w.rounds > most {
		w.heal(o)
		return
	}
	w.send(&w.mend, o)
}

// heal begins to scan for what was lost. w.quiet stays, because queued events may undo what the
// scan finds, and the events that do it again may get lost.
func (w *watches) heal(o *out) {
	w.lost, w.rounds = false, 0
	for _, d := range w.listed {
		d.listed = nil
	}
	w.listed = w.listed[:0]
	o.error(&Error{Op: "read events", Err: ErrOverflow})
	for name, h := range w.renames {
		w.left(name, h, o)
	}
	for i, top := range w.tops {
		if w.roots[i].removed() {
			gone(w.roots, i, o)
		}
		if !w.roots[i].gone {
			w.tasks = append(w.tasks, task{root: i, place: top, since: w.quiet})
		}
	}
	// The bar's event may have been lost too. That of stop need not be waited for: what was
	// queued is found now, and whoever goes on writing must not keep us.
	w.bar.sent, w.bar.fresh = false, true
	if w.ending {
		w.end(o)
	}
}
