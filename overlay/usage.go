//go:build linux

package overlay

import (
	"context"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Usage returns how many bytes the session takes on disk, as du(1) counts them: files
// with several names once, holes not at all. What the caller cannot list is left out.
// When ctx ends, the error is its, and the number is what was counted until then.
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
	return store.DiskUsage(ctx, d)
}
