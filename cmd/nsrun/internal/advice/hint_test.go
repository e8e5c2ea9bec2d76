//go:build linux

package advice

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

// TestHints: what the system refused an operation on a session has a hint of its own.
func TestHints(t *testing.T) {
	const space = "try: nsrun gc --older 0, which frees space at the price of undo"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&overlay.Error{Op: "commit", Path: "/p", Err: unix.EROFS}, "the session stays; try: nsrun diff --patch, for another copy of the project"},
		{&overlay.Error{Op: "undo", Path: "/p", Err: unix.EROFS}, "the session stays; try: nsrun diff --patch, for another copy of the project"},
		{&overlay.Error{Op: "look at", Path: "/p", Err: unix.EROFS}, ""},
		{&overlay.Error{Op: "commit", Path: "/p/x", Err: unix.ENAMETOOLONG}, "try: nsrun commit --exclude PATH"},
		{&overlay.Error{Op: "begin commit", Path: "/p", Err: unix.ENOSPC}, space},
		{fmt.Errorf("%w; nothing was done", &fs.PathError{Op: "copy", Path: "/p/f", Err: unix.EDQUOT}), space},
		{errors.Join(errors.New("put back"), &fs.PathError{Op: "put back", Path: "/p/f", Err: unix.ENOSPC}), space},
		{fmt.Errorf("watch: %w", unix.ENOSPC), ""}, // the limit on watches
		{&fs.PathError{Op: "copy", Path: "/p/f", Err: unix.EIO}, ""},
	} {
		if got := For(tt.err); got != tt.want {
			t.Errorf("%v: %q, not %q", tt.err, got, tt.want)
		}
	}
}
