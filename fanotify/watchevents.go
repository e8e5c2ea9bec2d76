//go:build linux

package fanotify

import (
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// split splits a path into a descriptor in /proc, and the name in it, if there is one.
func split(path string) (fd int, name string, ok bool) {
	path, ok = strings.CutPrefix(path, "/proc/self/fd/")
	if !ok {
		return 0, "", false
	}
	number, name, _ := strings.Cut(path, "/")
	fd, err := strconv.Atoi(number)
	return fd, name, err == nil
}

// renamedFrom returns the old name of a renamed object. fsnotify has it only in the text of the event.
func renamedFrom(ev fsnotify.Event) string { return cutFrom(ev.String()) }

// cutFrom returns the old name in the text of an event: the operation, the quoted name and,
// after a rename, an arrow and the quoted old name.
func cutFrom(text string) string {
	i := strings.IndexByte(text, '"')
	if i < 0 {
		return ""
	}
	name, err := strconv.QuotedPrefix(text[i:])
	if err != nil {
		return ""
	}
	quoted, ok := strings.CutPrefix(text[i+len(name):], " ← ")
	if !ok {
		return ""
	}
	from, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return from
}

// take turns an event of fsnotify into events.
func (w *watches) take(ev fsnotify.Event, ok bool, o *out) {
	if !ok {
		o.ended = true
		return
	}
	if ev.Name == "" {
		return // that a watch has ended, or an overflow
	}
	switch ev.Name {
	case w.bar.name:
		w.bar.pending = false
		// Some of what came before it was left out where the queue was full since.
		if w.bar.sent && !w.lost {
			w.reached(o)
		}
		return
	case w.mend.name:
		w.mend.pending = false
		if w.lost {
			w.heal(o)
		}
		return
	case w.finish.name:
		w.end(o)
		return
	}
	w.bar.fresh, w.restless = true, true
	fd, name, ok := split(ev.Name)
	d := w.byFD[fd]
	if !ok || d == nil || w.lost && name != "" {
		return
	}
	root, path := w.where(&d.place)
	if root == outside {
		return
	}
	now := time.Now()
	tell := Event{Root: w.roots[root].name, Path: path, Dir: true, Time: now}
	if name == "" {
		w.self(d, root, ev, tell, o)
		return
	}
	tell.Path = join(path, name)
	kid := d.kids[name]
	tell.Dir = kid != nil
	switch {
	case ev.Has(fsnotify.Create):
		d.names.add(name)
		w.created(d, name, ev, tell, o)
	case ev.Has(fsnotify.Rename):
		delete(d.listed, name)
		d.names.remove(name)
		w.renames[ev.Name] = half{d, name, root, tell.Path, tell.Dir, w.bar.serial + 1}
		if kid != nil {
			w.loosen(kid.watch)
		}
	case ev.Has(fsnotify.Remove):
		delete(d.listed, name)
		d.names.remove(name)
		if kid != nil {
			w.loosen(kid.watch)
		}
		tell.Op = Removed
		o.event(tell)
	case ev.Has(fsnotify.Write):
		tell.Op = Written
		o.event(tell)
	case ev.Has(fsnotify.Chmod):
		if w.denied && kid == nil {
			// It may be readable now.
			if sub, _ := w.settle(d, name, &out{}); sub != nil {
				tell.Dir = true
				w.tasks = append(w.tasks, task{place: &sub.place, all: true})
			}
		}
		tell.Op = Attributes
		o.event(tell)
	}
}

// self handles an event about a directory itself.
func (w *watches) self(d *watch, root int, ev fsnotify.Event, tell Event, o *out) {
	top := w.tops[root] == &d.place
	switch {
	case ev.Has(fsnotify.Rename):
		// It was moved, and fsnotify has ended the watch.
		if top {
			gone(w.roots, root, o)
		}
		if err := w.add(d); err != nil {
			w.hole(d, ".", err, o)
			return
		}
		w.tasks = append(w.tasks, task{place: &d.place, since: w.quiet})
	case ev.Has(fsnotify.Chmod) && top && w.roots[root].removed():
		gone(w.roots, root, o)
	case ev.Has(fsnotify.Chmod) && top: // others have it from the directory that they are in
		tell.Op = Attributes
		o.event(tell)
	}
}

// exchanged reports whether a rename is the second of the two that RENAME_EXCHANGE makes.
// Reported as two renames, one of the objects would seem to be lost.
func (w *watches) exchanged(root int, from, path string) bool {
	is := w.before == [2]string{path, from}
	w.before = [2]string{from, path}
	if !is {
		return false
	}
	fd, err := openAt(int(w.roots[root].fd), from, unix.O_PATH)
	fd.Close()
	return err == nil
}

// created handles a new name in a directory.
func (w *watches) created(d *watch, name string, ev fsnotify.Event, tell Event, o *out) {
	var from half
	if len(w.renames) > 0 {
		if old := renamedFrom(ev); old != "" {
			from = w.renames[old]
			delete(w.renames, old)
		}
		w.vacate(d, name, o)
	}
	if _, ok := d.listed[name]; ok {
		delete(d.listed, name)
		if from.path == "" {
			return
		}
	}
	sub, _ := w.settle(d, name, o)
	tell.Dir = sub != nil
	tell.Op = Created
	switch {
	case from.path == "":
	case w.roots[from.root].name == tell.Root:
		if w.exchanged(from.root, from.path, tell.Path) {
			from.in.names.add(from.name)
		} else {
			tell.Op, tell.From = Renamed, from.path
		}
	default:
		o.event(Event{Op: Removed, Root: w.roots[from.root].name, Path: from.path, Dir: from.dir, Time: tell.Time})
	}
	o.event(tell)
	if sub != nil && (tell.Op == Created || !from.dir || w.scanned > 0) {
		t := task{place: &sub.place, all: true}
		if tell.Op == Renamed && w.scanned > 0 {
			t.since = always // it may have been passed over, and names have gone from it
		}
		w.addTask(t)
	}
}
