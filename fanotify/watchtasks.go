//go:build linux

package fanotify

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// addTask adds a task, but not a second time.
func (w *watches) addTask(t task) {
	if !slices.Contains(w.tasks, t) {
		w.tasks = append(w.tasks, t)
	}
}

// task looks through a directory. It is watched already, so what is not found now will have events.
func (w *watches) task(o *out) {
	n := len(w.tasks)
	t := w.tasks[n-1]
	w.tasks = w.tasks[:n-1]
	if t.place == nil {
		w.tasks = t.do(w.roots, w.tasks, o, nil)
		return
	}
	d := t.place.watch
	root, path := w.where(&d.place)
	if root == outside || w.byFD[int(d.fd)] != d {
		return
	}
	t.root, t.path = root, path
	fd, err := openAt(int(d.fd), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err == nil {
		defer fd.Close()
		err = w.lookThrough(t, d, int(fd), o)
	}
	if err != nil && !elsewhere(err) {
		o.error(&Error{Op: "list", Path: absolute(w.roots[root].name, path), Err: err})
	}
}

// lookThrough lists the directory of a task, and reports what is new in it and what is gone.
func (w *watches) lookThrough(t task, d *watch, fd int, o *out) error {
	now := time.Now()
	if t.since != never {
		w.scanned, w.bar.fresh = w.bar.serial+1, true
	}
	if t.since != never && !t.all {
		// What was left out may be that it was moved, and so lost its watch.
		if err := w.add(d); err != nil {
			w.hole(d, ".", err, o)
		}
	}
	t.self(fd, o, w.roots, now)
	if t.all && t.since == 0 && unseen(fd) {
		o.event(Event{Op: Written, Root: w.roots[t.root].name, Path: t.path, Dir: true, Time: now})
	}
	var l listing
	var known map[string]struct{}
	if t.since != never && t.since != 0 {
		known = d.names.set()
	}
	seen := make(map[string]bool)
	err := list(fd, !t.all && t.since != never, func(f found) {
		l.add(f.name)
		if len(w.renames) > 0 {
			w.vacate(d, f.name, o)
		}
		it := t
		if known != nil {
			// Not every file system changes the time of what is renamed, and clocks are set.
			_, ok := known[f.name]
			it.all = t.all || !ok
			delete(known, f.name)
		}
		if kid := d.kids[f.name]; known != nil && kid != nil && (!f.dir || f.ino != kid.watch.id.ino) {
			// Something else is there now: what was in the directory has gone with it.
			it.all = true
			o.event(Event{Op: Removed, Root: w.roots[t.root].name, Path: join(t.path, f.name), Dir: true, Time: now})
		}
		it.event(o, w.roots, &f, now)
		if t.all {
			if d.listed == nil {
				d.listed, d.batch = make(map[string]struct{}), w.bar.serial+1
				w.listed = append(w.listed, d)
				w.bar.fresh = true
			}
			d.listed[f.name] = struct{}{}
		}
		if !f.dir {
			return
		}
		seen[f.name] = true
		if sub, moved := w.settle(d, f.name, o); sub != nil {
			next := t
			next.place = &sub.place
			next.all = t.all || moved && t.since != never // all in it has new paths
			w.tasks = append(w.tasks, next)
		}
	})
	if err == nil {
		d.names = nameSet{list: l.String()}
		for name := range known {
			o.event(Event{Op: Removed, Root: w.roots[t.root].name, Path: join(t.path, name), Dir: d.kids[name] != nil, Time: now})
		}
	}
	for name, kid := range d.kids {
		if err == nil && !seen[name] {
			w.loosen(kid.watch)
		}
	}
	return err
}

// settle finds out whether a name is a directory, and has it watched. The result is nil if
// it is none, or cannot be watched; moved says that it was not known to be there.
func (w *watches) settle(dir *watch, name string, o *out) (d *watch, moved bool) {
	fd, err := openAt(int(dir.fd), name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		if !elsewhere(err) {
			w.hole(dir, name, err, o)
		}
		return nil, false
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		fd.Close()
		w.hole(dir, name, err, o)
		return nil, false
	}
	i := id{uint64(st.Dev), st.Ino}
	d, known := w.byID[i]
	if known {
		fd.Close()
	} else {
		d = &watch{fd: fd, id: i}
		d.place.watch = d
		if err := w.add(d); err != nil {
			d.fd.Close()
			w.hole(dir, name, err, o)
			return nil, false
		}
	}
	if slices.Contains(w.tops, &d.place) {
		return nil, false // a root inside of itself: there is no such thing
	}
	moved = d.parent != &dir.place || d.name != name
	if known && moved {
		// It may have been outside, where it was moved and fsnotify has ended the watch.
		if err := w.fs.Add(sys.ProcPath(int(d.fd))); err != nil {
			w.hole(dir, name, err, o)
		}
	}
	if old := w.put(&d.place, &dir.place, name); old != nil {
		old.watch.batch = w.bar.serial + 1
		w.loose = append(w.loose, old.watch)
	}
	return d, moved
}

// hole tells that a directory is not watched. What changed in it will be told at the end.
func (w *watches) hole(dir *watch, name string, err error, o *out) {
	root, path := w.where(&dir.place)
	if err == unix.EACCES && root != outside {
		// Each is reported: they are few, and nothing in them can be searched.
		w.denied = true
		o.error(&Error{Op: "watch", Path: absolute(w.roots[root].name, join(path, name)), Err: err})
		return
	}
	if !w.holes && root != outside {
		o.error(&Error{Op: "watch", Path: absolute(w.roots[root].name, join(path, name)), Err: err})
	}
	w.holes = true
}
