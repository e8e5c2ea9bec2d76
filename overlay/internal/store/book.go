//go:build linux

package store

import (
	"encoding/json"
	"io/fs"
	"slices"
	"sync"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// PendingName is the directory, in the state directory, with a file for each session in
// which an operation is going on. If nobody holds the lock of such a session, the operation
// was interrupted. The directory makes it cheap to look for interrupted sessions.
const PendingName = "pending"

// Pending reports whether the session is on the list of sessions to recover.
func Pending(state *tree.Handle, id string) bool {
	return unix.Faccessat(int(state.FD), PendingName+"/"+id, unix.F_OK, 0) == nil
}

// A Book records what has to be done after a crash of the process that has the session open: its entry in the list of
// sessions to recover, and the modes of directories that are changed for a while.
type Book struct {
	State *tree.Handle // the directory of all sessions
	Dir   *tree.Handle // the session's; nil: it is closed
	ID    string

	mu      sync.Mutex
	noted   int  // entries in force
	listed  bool // the session is on the list because of them
	pending bool // the session is on the list because of a transaction or the like
}

// Close closes the book: after it, Note fails.
func (b *Book) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Dir = nil
}

// Flush waits until the list is on disk.
func (b *Book) Flush() error { return b.State.FlushDir(PendingName) }

func (b *Book) AddTo(f *tree.Flusher) error { return f.AddDir(b.State, PendingName) }

// MarkPending puts the session on the list of sessions to recover, until Unmark.
func (b *Book) MarkPending() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = true
	return b.list()
}

// Unmark takes the session off the list, unless the book keeps it there.
func (b *Book) Unmark() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = false
	if b.noted > 0 && b.listed {
		return nil
	}
	b.listed = false // an entry that could not be noted may have put it there
	return b.unlist()
}

func (b *Book) list() error {
	switch err := b.State.Mkdir(PendingName); err {
	case unix.EEXIST:
	case nil:
		if err := b.State.FlushDir("."); err != nil {
			return err
		}
	default:
		return err
	}
	f, err := b.State.Append(PendingName + "/" + b.ID)
	if err != nil {
		return err
	}
	f.Close()
	return nil
}

func (b *Book) unlist() error {
	err := unix.Unlinkat(int(b.State.FD), PendingName+"/"+b.ID, 0)
	if err == unix.ENOENT {
		err = nil
	}
	return err
}

const BookName = "doors"

type BookEntry struct {
	Upper bool   `json:"upper,omitempty"` // of the root's part of the session, not of the project
	Own   bool   `json:"own,omitempty"`   // of nothing but the session: Path is relative to its directory
	Root  int    `json:"root"`
	Path  Text   `json:"path"`
	Ino   uint64 `json:"ino"`
	Mode  uint32 `json:"mode"` // what it is to get back

	// What tells whether somebody else changed the directory meanwhile. Zero: it is not known.
	GID   uint32 `json:"gid,omitempty"`
	Mtime int64  `json:"mtime,omitempty"`
	Ctime int64  `json:"ctime,omitempty"`
}

// Note writes an entry into the book before a mode is changed. Call Unnote when the mode was restored.
func (b *Book) Note(e BookEntry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.listed {
		// Any process is to restore the modes, not only the next one that opens this session for writing.
		if err := b.list(); err != nil {
			return err
		}
		b.listed = true
	}
	if b.Dir == nil {
		return fs.ErrClosed
	}
	f, err := b.Dir.Append(BookName)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tree.WriteAll(f, slices.Concat([]byte{'\n'}, line, []byte{'\n'})); err != nil {
		return err
	}
	// A power failure must not keep the new mode and lose the old one.
	steps := []func() error{f.Fsync, func() error { return b.Dir.FlushDir(".") }}
	if !e.Upper && !e.Own {
		steps = append(steps, b.Flush)
	}
	if err := tree.InTurn(steps...); err != nil {
		return err
	}
	b.noted++
	return nil
}

// Unnote says that the modes of n noted objects were restored. When all were, the book is removed.
func (b *Book) Unnote(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noted -= n; b.noted == 0 && b.Dir != nil {
		err := b.Dir.Unlink(BookName, 0)
		if err == nil && b.listed && !b.pending {
			_ = b.unlist()
		}
		b.listed = false
	}
}

// Keeper returns a function with which a tree notes changes of modes.
func (b *Book) Keeper(upper bool, root int) func(path string, ino uint64, mode uint32) error {
	return func(path string, ino uint64, mode uint32) error {
		return b.Note(BookEntry{Upper: upper, Root: root, Path: Text(path), Ino: ino, Mode: mode})
	}
}

// OwnKeeper is Keeper for a tree in the session's directory, at dir.
func (b *Book) OwnKeeper(dir string) func(path string, ino uint64, mode uint32) error {
	return func(path string, ino uint64, mode uint32) error {
		return b.Note(BookEntry{Own: true, Path: Text(tree.JoinPath(dir, path)), Ino: ino, Mode: mode})
	}
}
