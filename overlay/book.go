//go:build linux

package overlay

import (
	"encoding/json"
	"io/fs"
	"slices"
	"sync"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// pendingName is the directory of the state directory that holds a file for each
// session that something is being done with: if nobody holds its lock any more, that
// was interrupted. It is what makes looking for such sessions cheap.
const pendingName = "pending"

// pending reports whether the session is on the list of those to be looked after.
func pending(state *tree.Handle, id string) bool {
	return unix.Faccessat(int(state.FD), pendingName+"/"+id, unix.F_OK, 0) == nil
}

// A book is what a session that is open keeps so that whoever comes after a crash finds
// what is to be done: an entry in the list of sessions that are to be looked after, and the
// modes of directories that are open for a while.
type book struct {
	state *tree.Handle // the directory of all sessions
	dir   *tree.Handle // the session's; nil: it is closed
	id    string

	mu      sync.Mutex
	noted   int  // entries that are in force
	listed  bool // these have put the session on the list
	pending bool // a transaction or the like has
}

// close ends it: nothing is noted any more.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dir = nil
}

// flush waits until the list is on disk.
func (b *book) flush() error { return b.state.FlushDir(pendingName) }

// addTo gives f what flush waits for.
func (b *book) addTo(f *tree.Flusher) error { return f.AddDir(b.state, pendingName) }

// markPending puts the session on the list of those to be looked after, until unmark.
func (b *book) markPending() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = true
	return b.list()
}

// unmark takes the session off the list, unless the book keeps it there.
func (b *book) unmark() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = false
	if b.noted > 0 && b.listed {
		return nil
	}
	return b.unlist()
}

func (b *book) list() error {
	switch err := b.state.Mkdir(pendingName); err {
	case unix.EEXIST:
	case nil:
		if err := b.state.FlushDir("."); err != nil {
			return err
		}
	default:
		return err
	}
	f, err := b.state.Append(pendingName + "/" + b.id)
	if err != nil {
		return err
	}
	f.Close()
	return nil
}

func (b *book) unlist() error {
	err := unix.Unlinkat(int(b.state.FD), pendingName+"/"+b.id, 0)
	if err == unix.ENOENT {
		err = nil
	}
	return err
}

const bookName = "doors"

// bookEntry is a line of the book.
type bookEntry struct {
	Upper bool    `json:"upper,omitempty"` // of the session's own directory, not of the project's
	Root  int     `json:"root"`
	Path  rawText `json:"path"`
	Ino   uint64  `json:"ino"`
	Mode  uint32  `json:"mode"` // what it is to get back
}

// note writes an entry into the book before a mode is changed. Each call is to be
// followed by one of unnote when the mode is as it was.
func (b *book) note(e bookEntry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !e.Upper && !b.listed {
		// The project's owner must not wait until somebody opens this session again.
		if err := b.list(); err != nil {
			return err
		}
		b.listed = true
	}
	if b.dir == nil {
		return fs.ErrClosed
	}
	f, err := b.dir.Append(bookName)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tree.WriteAll(f, slices.Concat([]byte{'\n'}, line, []byte{'\n'})); err != nil {
		return err
	}
	b.noted++
	return nil
}

// unnote tells that n noted objects have their modes again. When all have, the book is
// thrown away.
func (b *book) unnote(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noted -= n; b.noted == 0 && b.dir != nil {
		err := b.dir.Unlink(bookName, 0)
		if err == nil && b.listed && !b.pending {
			_ = b.unlist()
		}
		b.listed = false
	}
}

// keeper is what a tree's changes of modes are to be noted with. They are forgotten when
// the session is closed, or recovered.
func (b *book) keeper(upper bool, root int) func(path string, ino uint64, mode uint32) error {
	return func(path string, ino uint64, mode uint32) error {
		return b.note(bookEntry{Upper: upper, Root: root, Path: rawText(path), Ino: ino, Mode: mode})
	}
}
