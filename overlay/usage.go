//go:build linux

package overlay

import (
	"context"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Usage returns how many bytes the session takes on disk, as du(1) counts them: files with several names once, holes
// not at all. It omits directories that the caller cannot list. If ctx ends, it returns the context's error, and the
// bytes that it counted until then.
func (i Info) Usage(ctx context.Context) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &Error{Op: "measure session", Path: i.Dir, Err: err} }
	_, state, err := openStateDir(filepath.Dir(i.Dir), false)
	if err != nil {
		return fail(sys.Bare(err))
	}
	defer state.Close()
	d, err := store.OpenOwned(state, filepath.Base(i.Dir))
	if err != nil {
		return fail(err)
	}
	defer d.Close()
	sum, err := store.DiskUsage(ctx, d)
	return sum.Bytes, err
}

// Written counts what commands have written, even while one runs. With EngineCopy the copies count, too. If ctx ends,
// it returns the context's error.
func (s *Session) Written(ctx context.Context) (w Written, err error) {
	fail := func(err error) (Written, error) { return w, &Error{Op: "measure session", Path: s.path, Err: err} }
	s.mu.Lock()
	mem := s.mem != nil
	var area *tree.Handle
	if err = fs.ErrClosed; s.dir != nil {
		area, err = s.area().OpenDir(".")
	}
	s.mu.Unlock()
	if err != nil {
		return fail(err)
	}
	defer area.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(area.FD), &st); err != nil {
		return fail(err)
	}
	w.UsedBytes, w.UsedFiles = int64(st.Blocks-st.Bfree)*st.Bsize, int64(st.Files-st.Ffree)
	if mem {
		w.Bytes, w.Files = w.UsedBytes, w.UsedFiles
		return w, nil
	}
	sum, err := store.DiskUsage(ctx, area)
	if err != nil {
		return fail(err)
	}
	w.Bytes, w.Files, w.Partial = sum.Bytes, sum.Files, sum.Partial
	return w, nil
}
