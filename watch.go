package nsrun

import (
	"context"
	"sync"
	"time"

	"github.com/nsrun/nsrun/fanotify"
)

// watch is an Execution's watching.
type watch struct {
	watcher *fanotify.Watcher // nil: nothing is watched
	err     error             // why not, although it was asked for
	places  map[string]Place  // by Dir

	using sync.Mutex // held while the iteration uses the Execution
	left  bool       // nobody waits for the iteration any more, and it may not use the Execution

	mu      sync.Mutex
	drained chan struct{} // closed when the iteration is over; nil: nobody has asked for one
	known   chan struct{} // closed when Result.Changes is complete; nil: nothing was to be watched
}

func (w *watch) end() {
	if w.watcher != nil {
		w.watcher.Close()
		w.watcher = nil
	}
}

// finish is called when the command has ended. It returns when everything that happened was reported to those who asked
// for it; if they have not taken it a while after ctx has ended, they get no more.
func (w *watch) finish(ctx context.Context, patience time.Duration) {
	w.mu.Lock()
	drained := w.drained
	if w.watcher != nil {
		if drained == nil {
			w.end()
		} else {
			w.watcher.Stop()
		}
	}
	watched := w.watcher != nil
	w.mu.Unlock()
	if !watched {
		return
	}
	select {
	case <-drained:
		return
	case <-ctx.Done():
	}
	select {
	case <-drained:
		return
	case <-time.After(patience):
	}
	w.using.Lock()
	w.left = true
	w.using.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

func (w *watch) wasLeft() bool {
	w.using.Lock()
	defer w.using.Unlock()
	return w.left
}

// tell reports that Result.Changes is complete.
func (w *watch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		return
	}
	select {
	case <-w.known:
	default:
		close(w.known)
	}
}

// Place is a directory in which what the command writes appears while it runs.
type Place struct {
	Dir     string // where it appears
	Project string // the folder that it is about
}
