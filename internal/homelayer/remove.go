//go:build linux

package homelayer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
)

// Prefixes of names that are not layers: of one that is being made, and of one that is being removed.
const (
	newBegin  = ".new-"
	goneBegin = ".gone-"
)

// Remove removes a layer. ErrBusy: a command uses it.
func Remove(path string) error {
	fail := func(err error) error {
		return &fs.PathError{Op: "remove home layer", Path: path, Err: sys.Bare(err)}
	}
	all, real, err := owndir.Open(filepath.Dir(path), false)
	if err != nil {
		return fail(err)
	}
	defer all.Close()
	l := Layer{path: filepath.Join(real, filepath.Base(path)), runLock: sys.None, lock: sys.None}
	if l.dir, err = openLayer(l.path); err != nil {
		return fail(err)
	}
	defer l.close()
	if err = l.openAlone(); err != nil {
		return fail(err)
	}
	name, gone := filepath.Base(path), goneBegin+sys.RandomText(12)
	if err = sys.RenameNew(int(all), name, int(all), gone); err != nil {
		return fail(err)
	}
	if err = removeTree(all, gone); err != nil {
		return fail(err)
	}
	return nil
}

// Retention is how long an unused layer is kept.
const Retention = 30 * 24 * time.Hour

// The age of the file cleanedName in the directory of layers tells when it was last cleaned.
const cleanedName = ".cleaned"

// Clean removes unused layers and what killed processes left behind, and returns the layers. With dry it removes
// nothing.
func Clean(dir string, unused time.Duration, dry bool) (removed []Info, err error) {
	list, err := List(dir)
	for _, in := range list {
		if time.Since(in.Used) < unused {
			continue
		}
		if !dry {
			rerr := Remove(in.Path)
			if errors.Is(rerr, ErrBusy) {
				continue
			}
			if rerr != nil {
				err = errors.Join(err, rerr)
				continue
			}
		}
		removed = append(removed, in)
	}
	if !dry {
		err = errors.Join(err, sweep(dir))
	}
	return removed, err
}

// sweep removes layers that were being made or removed an hour ago.
func sweep(dir string) error {
	all, _, err := owndir.Open(dir, false)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	defer all.Close()
	names, err := sys.Names(int(all), make([]byte, 16<<10))
	for _, name := range names {
		var st unix.Stat_t
		if !strings.HasPrefix(name, newBegin) && !strings.HasPrefix(name, goneBegin) ||
			unix.Fstatat(int(all), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || time.Since(time.Unix(st.Ctim.Unix())) < time.Hour {
			continue
		}
		err = errors.Join(err, removeTree(all, name))
	}
	return err
}

func CleanDaily(dir string) error {
	all, _, err := owndir.Open(dir, false)
	if err != nil {
		return nil // there is none
	}
	defer all.Close()
	if stamped(all, cleanedName, 24*time.Hour) {
		return nil
	}
	_ = unix.Unlinkat(int(all), cleanedName, 0)
	if err := writeFile(all, cleanedName, ""); err != nil {
		return err
	}
	_, err = Clean(dir, Retention, false)
	return err
}
