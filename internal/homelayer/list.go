//go:build linux

package homelayer

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
)

type Info struct {
	Path    string
	Project string    // of which it is; of commands without one, the home directory
	Used    time.Time // when a command began to use it last
	Pending int       // runs that are not merged yet
}

// List lists the layers in a directory by name. A missing directory has none.
func List(dir string) (list []Info, err error) {
	all, real, err := owndir.Open(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer all.Close()
	entries, err := os.ReadDir(real)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if in, ierr := Look(filepath.Join(real, e.Name())); ierr == nil {
			list = append(list, in)
		}
	}
	return list, err
}

// Look returns the Info of a layer.
func Look(path string) (in Info, err error) {
	dir, err := openLayer(path)
	if err != nil {
		return in, err
	}
	defer dir.Close()
	in.Path = path
	if f, err := openAt(dir, projectName, unix.O_RDONLY); err == nil {
		file := os.NewFile(uintptr(f), projectName)
		b, _ := io.ReadAll(io.LimitReader(file, 1<<16))
		_ = file.Close()
		in.Project = string(b)
	}
	for _, name := range [...]string{workName, lockName, runsName} { // mounting changes work
		var st unix.Stat_t
		if unix.Fstatat(int(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			if t := time.Unix(st.Mtim.Unix()); t.After(in.Used) {
				in.Used = t
			}
		}
	}
	if runs, err := openAt(dir, runsName, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		names, _ := runNames(runs)
		runs.Close()
		in.Pending = len(names)
	}
	return in, nil
}

// Size returns the disk usage of a layer.
func (in Info) Size() int64 {
	dir, err := openLayer(in.Path)
	if err != nil {
		return 0
	}
	defer dir.Close()
	return usage(dir)
}

func openLayer(path string) (sys.FD, error) {
	n, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, &fs.PathError{Op: "open home layer", Path: path, Err: err}
	}
	if err = owndir.Check(sys.FD(n)); err != nil {
		unix.Close(n)
		return sys.None, &fs.PathError{Op: "open home layer", Path: path, Err: err}
	}
	return sys.FD(n), nil
}

type Kind byte

const (
	Added    Kind = 'A'
	Modified Kind = 'M'
	Deleted  Kind = 'D'
)

type Change struct {
	Kind Kind
	Path string // below the home directory; a new directory, with all that is in it, ends with a slash
	Size int64  // on disk
}

// Changes lists what commands wrote to the layer at path, compared with a home directory, except runs that are not
// merged yet. A new directory, and one for which whole returns true, is one change; whole may be nil.
func Changes(path, home string, whole func(name string) bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		fail := func(err error) {
			yield(Change{}, &fs.PathError{Op: "list home layer", Path: path, Err: sys.Bare(err)})
		}
		dir, err := openLayer(path)
		if err != nil {
			fail(err)
			return
		}
		defer dir.Close()
		w := changeWalk{yield: yield, whole: whole, sizes: true}
		if err := w.layer(dir, home); err != nil {
			fail(err)
		}
	}
}

type changeWalk struct {
	yield func(Change, error) bool
	whole func(name string) bool
	into  func(name string) bool // what is in this directory is listed, also if the directory is new; nil: of none
	sizes bool
	over  bool
}

// layer compares what is in a layer with a home directory.
func (w *changeWalk) layer(dir sys.FD, home string) error {
	upper, err := openAt(dir, upperName, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES { // a command closed it
		upper, err = openSub(dir, upperName)
	}
	if err != nil {
		return err
	}
	defer upper.Close()
	below, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(below)
	return w.dir(upper, sys.FD(below), "", 0)
}

func (w *changeWalk) dir(upper, below sys.FD, at string, depth int) error {
	names, err := sys.Names(int(upper), make([]byte, 16<<10))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if w.over {
			return nil
		}
		var st, old unix.Stat_t
		if unix.Fstatat(int(upper), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		c := Change{Kind: Added, Path: at + name, Size: st.Blocks * 512}
		there := below != sys.None && unix.Fstatat(int(below), name, &old, unix.AT_SYMLINK_NOFOLLOW) == nil
		dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		opened := there && old.Mode&unix.S_IFMT == unix.S_IFDIR || w.into != nil && w.into(at+name)
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0:
			c.Kind, c.Size = Deleted, 0
			if !there {
				continue
			}
		case dir && opened && depth < deepest && (w.whole == nil || !w.whole(at+name)):
			err := w.both(upper, below, at, name, depth)
			if err == nil {
				continue
			}
			c.Kind = Modified // what is in it cannot be listed
		case there:
			c.Kind = Modified
		}
		if dir {
			c.Path += "/"
			if w.sizes {
				c.Size = usageAt(upper, name)
			}
		}
		w.over = !w.yield(c, nil)
	}
	return nil
}

func usageAt(dir sys.FD, name string) int64 {
	sub, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return 0
	}
	defer sub.Close()
	return usage(sub)
}

func (w *changeWalk) both(upper, below sys.FD, at, name string, depth int) error {
	u, err := openAt(upper, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer u.Close()
	b := sys.None
	if below != sys.None {
		if b, err = openAt(below, name, unix.O_PATH|unix.O_DIRECTORY); err != nil && w.into == nil {
			return err
		}
	}
	defer b.Close()
	return w.dir(u, b, at+name+"/", depth+1)
}
