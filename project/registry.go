//go:build linux

package project

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsrun/nsrun/internal/homedir"
)

// DefaultDirs returns the directories of the database and of the copies that zero Options use.
func DefaultDirs() (dir, cache string, err error) {
	home, herr := homedir.Find()
	find := func(variable string, below ...string) (string, error) {
		base := os.Getenv(variable)
		if !filepath.IsAbs(base) { // the specification says to ignore others
			if herr != nil {
				return "", herr
			}
			base = filepath.Join(append([]string{home}, below...)...)
		}
		return filepath.Join(base, "nsrun"), nil
	}
	if dir, err = find("XDG_STATE_HOME", ".local", "state"); err != nil {
		return "", "", &Error{Op: "find state directory", Err: homedir.Elsewhere(err, "XDG_STATE_HOME")}
	}
	if cache, err = find("XDG_CACHE_HOME", ".cache"); err != nil {
		return "", "", &Error{Op: "find cache directory", Err: homedir.Elsewhere(err, "XDG_CACHE_HOME")}
	}
	return dir, cache, nil
}

// A Registry may be used by several goroutines, and by several processes that have opened the same one.
type Registry struct {
	o    Options
	now  func() time.Time
	fail error // of Open, told by the first use

	stateVariable, cacheVariable string // which name the directories' places; empty: the caller did

	mu       sync.Mutex
	state    *dir     // nil: not open yet
	journal  *os.File // nil: not open yet
	closed   bool
	verified bool

	db sync.Mutex // one transaction at a time; the lock of the file is for other processes

	merging  atomic.Bool
	merges   sync.WaitGroup
	mergeErr error // the last one of a merge in the background; db guards it
}

// Open returns a registry. It does no input or output. The first use does, and returns what is wrong with the
// directories.
func Open(o Options) *Registry {
	r := &Registry{o: o, now: time.Now}
	if o.Dir == "" || o.Cache == "" {
		dir, cache, err := DefaultDirs()
		r.fail = err
		if o.Dir == "" {
			r.o.Dir, r.stateVariable = dir, "XDG_STATE_HOME"
		}
		if o.Cache == "" {
			r.o.Cache, r.cacheVariable = cache, "XDG_CACHE_HOME"
		}
	}
	const day = 24 * time.Hour
	set(&r.o.Retention, 7*day)
	set(&r.o.LogRetention, 90*day)
	set(&r.o.LogMost, 20_000)
	set(&r.o.BackupFile, 1<<30)
	set(&r.o.BeforeFile, 16<<20)
	set(&r.o.BeforeAll, 64<<20)
	set(&r.o.Changes, 1000)
	set(&r.o.Wait, 10*time.Second)
	return r
}

func set[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// Private returns the directories that a sandboxed command must not be able to read, write or rename.
func (r *Registry) Private() []string { return []string{r.o.Dir, r.o.Cache} }

// Close releases what the registry holds. It does not wait for the disk: what was recorded is in the journal, and
// survives the end of the process. Flush waits.
func (r *Registry) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.merges.Wait()
	r.db.Lock()
	defer r.db.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.close()
	if r.journal != nil {
		_ = r.journal.Close() // nothing is buffered
	}
	return r.mergeErr
}

// Prepare opens the journal for the next record, for callers that have time before there is something to record. If it
// fails, the record tries again, and returns the error.
func (r *Registry) Prepare() {
	d, err := r.directory(true)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.journal == nil {
		r.journal, _ = openJournal(d)
	}
}

// Recover removes what restorations left beside files when they were interrupted. Every other use does so as well.
func (r *Registry) Recover() { _, _ = r.directory(false) }

// Flush moves the journal into the database, and returns when that is on disk.
func (r *Registry) Flush() error { return r.update(nil) }

// directory opens the directory of the database. Without create one that is not there is fs.ErrNotExist.
func (r *Registry) directory(create bool) (*dir, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, &Error{"open registry", r.o.Dir, fs.ErrClosed}
	}
	if r.fail != nil {
		return nil, r.fail
	}
	if r.state == nil {
		d, err := openPrivate(r.o.Dir, create)
		if err != nil {
			return nil, homedir.Elsewhere(err, r.stateVariable)
		}
		r.state = d
		finishRestorations(d)
	}
	return r.state, nil
}

// copies opens a directory of copies, "edited" or "temp-files".
func (r *Registry) copies(name string, create bool) (*dir, error) {
	if r.fail != nil {
		return nil, r.fail
	}
	top, err := openPrivate(r.o.Cache, create)
	if err != nil {
		return nil, homedir.Elsewhere(err, r.cacheVariable)
	}
	defer top.close()
	d, err := top.sub(name, create)
	return d, homedir.Elsewhere(wrap("open directory", filepath.Join(top.path, name), err), r.cacheVariable)
}

// canceled is the context's error with what was being done.
func canceled(ctx context.Context, op, path string) error {
	if err := ctx.Err(); err != nil {
		return &Error{op, path, context.Cause(ctx)}
	}
	return nil
}
