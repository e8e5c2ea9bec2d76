//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// DefaultDir returns the state directory that is used if Options.Dir is empty:
// $XDG_STATE_HOME/nsrun/sessions, or ~/.local/state/nsrun/sessions (XDG Base Directory
// Specification). If $HOME is not set, ~ is the home directory in /etc/passwd.
func DefaultDir() (string, error) {
	home, err := homedir.Find()
	dir := homedir.State(home)
	if dir == "" {
		return "", &Error{Op: opFindState, Err: err}
	}
	return filepath.Join(dir, "sessions"), nil
}

// openStateDir opens the directory of the sessions, see owndir.Open, and returns its path without symbolic links. With
// create, it creates what is missing, with mode 0700.
func openStateDir(dir string, create bool) (path string, h *tree.Handle, err error) {
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return "", nil, err
		}
	}
	path, h, err = store.OpenState(dir, create)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return "", nil, &Error{Op: opOpenState, Path: e.Path, Err: e.Err}
	}
	return path, h, err
}
