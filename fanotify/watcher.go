//go:build linux

package fanotify

import (
	"errors"
	"iter"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher watches directories from New to Close.
type Watcher struct {
	engine Engine
	eng    engine
	out    out

	mu     sync.Mutex
	busy   bool // somebody iterates
	closed bool
}

// engine is the interface of both engines. All methods except stop and abort are called by one goroutine at a time.
type engine interface {
	// step waits until there is something to do, does a part of it and puts what it found into out.
	step(o *out)
	// stop makes step end after it has read everything that the kernel has queued by now. It may be called at any
	// time, more than once.
	stop()
	// abort makes step return soon.
	abort()
	// close releases everything. It may take a while.
	close()
}

// out has the events that are not yet reported.
type out struct {
	items []item
	ended bool // nothing more will come
	told  told
}

type item struct {
	ev  Event
	err error
}

func (o *out) event(ev Event) {
	// Writes in small pieces are one.
	if n := len(o.items); n > 0 && ev.Op == Written {
		if last := &o.items[n-1].ev; last.Op == Written && last.Path == ev.Path && last.Root == ev.Root && last.PID == ev.PID {
			return
		}
	}
	o.told.note(&ev)
	o.items = append(o.items, item{ev: ev})
}

func (o *out) error(err error) { o.items = append(o.items, item{err: err}) }

// New begins to watch. Everything that happens after it has returned is reported.
func New(o Options) (*Watcher, error) {
	if o.Engine > Inotify {
		return nil, &Error{Op: "use " + o.Engine.String(), Err: unix.EINVAL}
	}
	roots, err := openRoots(o.Roots)
	if err != nil {
		return nil, err
	}
	w := &Watcher{}
	if o.Sweep {
		w.out.told = told{}
	}
	if o.Engine != Inotify {
		eng, err := newMarks(roots, o)
		if err == nil {
			w.engine, w.eng = Fanotify, eng
			return w, nil
		}
		if o.Engine == Fanotify || !cannot(err) {
			closeRoots(roots)
			return nil, err
		}
	}
	eng, err := newWatches(roots, o)
	if err != nil {
		closeRoots(roots)
		return nil, err
	}
	w.engine, w.eng = Inotify, eng
	return w, nil
}

// cannot reports whether an error means that the kernel or the file system cannot do it, or that we may not, rather
// than that something went wrong.
func cannot(err error) bool {
	for _, e := range [...]error{unix.EPERM, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.ENODEV, unix.EXDEV, unix.EOVERFLOW, unix.EMFILE, unix.ENOSPC, unix.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Engine returns the engine in use.
func (w *Watcher) Engine() Engine { return w.engine }

// Events yields changes, and waits for them, until Stop or Close is called or all roots are gone. An error does not end
// the iteration, except the last. If you break off an iteration and start another one later, no event is lost. There
// may be one iteration at a time, in any goroutine. It does all the work: there is no other goroutine.
func (w *Watcher) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := w.enter(); err != nil {
			yield(Event{}, &Error{Op: "read events", Err: err})
			return
		}
		defer w.leave()
		for {
			for i := range w.out.items {
				it := w.out.items[i]
				if !yield(it.ev, it.err) {
					w.out.items = append(w.out.items[:0], w.out.items[i+1:]...)
					return
				}
				if w.isClosed() {
					return
				}
			}
			clear(w.out.items)
			w.out.items = w.out.items[:0]
			if w.out.ended || w.isClosed() {
				return
			}
			w.eng.step(&w.out)
		}
	}
}

func (w *Watcher) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrClosed
	case w.busy:
		return ErrBusy
	}
	w.busy = true
	return nil
}

func (w *Watcher) leave() {
	w.mu.Lock()
	w.busy = false
	last := w.closed
	w.mu.Unlock()
	if last {
		go w.eng.close()
	}
}

func (w *Watcher) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Stop makes the iteration end after everything that happened before the call was reported. It does not wait for that.
// It may be called from any goroutine, even before the iteration.
func (w *Watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.eng.stop()
	}
}

// Close releases the Watcher's descriptors, and ends an iteration, which may be the caller's own. It returns at once:
// the kernel takes some milliseconds to remove its marks, but Close does not wait for that. Closing again does nothing.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	if w.busy {
		w.eng.abort() // who iterates closes
		return
	}
	go w.eng.close()
}

// gather is how long events are left to gather after some were taken. The kernel puts
// several for one file into one, and writers are not interrupted for each.
const gather = 5 * time.Millisecond
