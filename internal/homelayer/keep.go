//go:build linux

package homelayer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Why a path is not copied into the home directory.
var (
	ErrLink     = errors.New("its path contains a symbolic link")
	ErrSpecial  = errors.New("it is not a file, directory or symbolic link, or it is set-user-id or set-group-id")
	ErrDeleted  = errors.New("commands deleted it in the home layer: there is nothing to keep")
	ErrExists   = errors.New("it is in the home directory already")
	ErrKind     = errors.New("in the home directory it has another type")
	ErrNotThere = errors.New("it is not in the home layer")
)

// KeepOptions say how Keep copies.
type KeepOptions struct {
	// Replace replaces files of the home directory. False: they are ErrExists.
	Replace bool
	// Held says why an object in the directory is not copied; empty: it is. Nil: everything is copied, including
	// symbolic links that lead out of the directory.
	Held func(name string) string
}

// A Kept is an object that Keep copied, or did not.
type Kept struct {
	Path string // below the home directory
	Link string // what a symbolic link says that is named itself; empty: it is no such link
	Old  string // where the file is that it replaced; empty: it replaced none
	Held string // why it was left out; empty: it was not
	Err  error  // why it could not be copied; nil: it was
}

// Keep copies name from the layer at path to the same place in a home directory. It follows no link on either side, and
// files appear there complete. ErrBusy: a command uses the layer. Errors about objects in a directory are in the list.
func Keep(layer, home, name string, o KeepOptions) (list []Kept, err error) {
	fail := func(err error) ([]Kept, error) {
		return nil, &fs.PathError{Op: "keep", Path: filepath.Join(home, name), Err: sys.Bare(err)}
	}
	l := Layer{path: layer, home: home, runLock: sys.None, lock: sys.None}
	if l.dir, err = openLayer(layer); err != nil {
		return fail(ErrNotThere)
	}
	defer l.close()
	if err = l.openAlone(); err != nil {
		return fail(err)
	}
	if ok, err := l.mergeRuns(); err != nil {
		return fail(err)
	} else if !ok {
		return fail(ErrBusy)
	}
	upper, err := openSub(l.dir, upperName)
	if err != nil {
		return fail(err)
	}
	defer upper.Close()
	n, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	k := keeper{o: o, layer: &l, home: home}
	defer k.forget()
	from, to, err := k.way(upper, sys.FD(n), path.Dir(name))
	if err != nil {
		return fail(err)
	}
	defer from.Close()
	defer to.Close()
	k.entry(from, to, name, 0)
	if len(k.list) == 1 && k.list[0].Path == name && k.list[0].Err != nil {
		return fail(k.list[0].Err)
	}
	return k.list, nil
}

type keeper struct {
	o     KeepOptions
	layer *Layer
	home  string
	note  *os.File // nil: none is there yet
	list  []Kept
}

// way opens the parent directory of a path on both sides, and makes it in the home directory if it is missing. It
// closes to.
func (k *keeper) way(upper, to sys.FD, dir string) (from, at sys.FD, err error) {
	if from, err = openAt(upper, ".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		to.Close()
		return sys.None, sys.None, err
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == "." || part == "" {
			continue
		}
		next, err := openAt(from, part, unix.O_PATH|unix.O_DIRECTORY)
		from.Close()
		if from = next; err == nil {
			next, err = intoDir(from, to, part)
			to.Close()
			to = next
		} else if err == unix.ENOENT {
			err = ErrNotThere
		}
		if err != nil {
			from.Close()
			to.Close()
			return sys.None, sys.None, noLink(err)
		}
	}
	return from, to, nil
}

func noLink(err error) error {
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return ErrLink
	}
	return err
}

// intoDir opens a directory of the home directory; a missing one is made with the permissions of from.
func intoDir(from, to sys.FD, name string) (sys.FD, error) {
	d, err := openAt(to, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != unix.ENOENT {
		return d, noLink(err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(from), &st); err != nil {
		return sys.None, err
	}
	if err = sys.Mkdir(int(to), name, st.Mode&0o755|0o700); err != nil && err != unix.EEXIST {
		return sys.None, err
	}
	d, err = openAt(to, name, unix.O_PATH|unix.O_DIRECTORY)
	return d, noLink(err)
}

// entry copies the object at a path, whose last element is in from and to.
func (k *keeper) entry(from, to sys.FD, name string, depth int) {
	one := Kept{Path: name}
	base := path.Base(name)
	var st unix.Stat_t
	err := unix.Fstatat(int(from), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	kind := st.Mode & unix.S_IFMT
	switch {
	case err == unix.ENOENT:
		err = ErrNotThere
	case err != nil:
	case kind == unix.S_IFCHR && st.Rdev == 0:
		err = ErrDeleted
	case kind == unix.S_IFDIR:
		if err = k.dir(from, to, name, depth); err == nil {
			return
		}
	case depth > 0 && k.held(name) != "":
		one.Held = k.held(name)
	case kind == unix.S_IFLNK:
		err = k.link(from, to, &one, depth)
	case kind == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0:
		one.Old, err = k.file(from, to, name)
	default:
		err = ErrSpecial
	}
	one.Err = err
	k.list = append(k.list, one)
}

func (k *keeper) held(name string) string {
	if k.o.Held == nil {
		return ""
	}
	return k.o.Held(name)
}

func (k *keeper) dir(from, to sys.FD, name string, depth int) error {
	if depth == deepest {
		return unix.ENAMETOOLONG
	}
	source, err := openSub(from, path.Base(name))
	if err != nil {
		return noLink(err)
	}
	defer source.Close()
	target, err := intoDir(source, to, path.Base(name))
	if err != nil {
		return err
	}
	defer target.Close()
	names, err := sys.Names(int(source), make([]byte, 16<<10))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		k.entry(source, target, path.Join(name, n), depth+1)
	}
	return nil
}

// file copies a file, which appears when it is complete.
func (k *keeper) file(from, to sys.FD, at string) (old string, err error) {
	name := path.Base(at)
	var there unix.Stat_t
	err = unix.Fstatat(int(to), name, &there, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		return "", err
	case there.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", ErrKind
	case !k.o.Replace:
		return "", ErrExists
	}
	exists := err == nil
	n, err := sys.Openat2(int(from), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return "", noLink(err)
	}
	source := os.NewFile(uintptr(n), name)
	defer source.Close()
	var st unix.Stat_t
	if err = unix.Fstat(n, &st); err == nil && st.Mode&(unix.S_IFMT|unix.S_ISUID|unix.S_ISGID) != unix.S_IFREG {
		err = ErrSpecial
	}
	if err != nil {
		return "", err
	}
	made := keptBegin + sys.RandomText(12)
	if err = k.remember(path.Join(path.Dir(at), made)); err != nil {
		return "", err
	}
	if err = copyFile(source, to, made, &st); err == nil {
		if exists {
			old, err = k.replace(to, made, name)
		} else if err = sys.RenameNew(int(to), made, int(to), name); err == unix.EEXIST {
			err = ErrExists
		}
	}
	if err != nil {
		_ = unix.Unlinkat(int(to), made, 0)
	}
	return old, err
}

// copyFile makes a file with the content, permissions and times of another.
func copyFile(source *os.File, to sys.FD, made string, st *unix.Stat_t) error {
	f, err := sys.OwnFile(to, made, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	n := int(f.Fd())
	_, err = sys.CopyData(context.Background(), f, source) // what is a hole in it takes no space
	if err == nil {
		err = errors.Join(unix.Fchmod(n, st.Mode&0o755), sys.SetTimes(n, []unix.Timespec{st.Atim, st.Mtim}), sys.Fsync(n))
	}
	return errors.Join(err, f.Close())
}

// replace puts a file in the place of another, and returns where that is now: in the layer, or beside the file if it
// cannot be moved there.
func (k *keeper) replace(to sys.FD, made, name string) (old string, err error) {
	if err = k.mayBeOld(); err != nil {
		return "", err
	}
	switch err = sys.Renameat2(int(to), made, int(to), name, unix.RENAME_EXCHANGE); err {
	case nil:
		old = made
	case unix.EINVAL: // a file system that cannot do it
		old = keptBegin + sys.RandomText(12)
		linked := unix.Linkat(int(to), name, int(to), old, 0) == nil
		if err = nil; !linked { // nor this
			err = sys.RenameNew(int(to), name, int(to), old)
		}
		if err != nil {
			break
		}
		err = sys.Renameat2(int(to), made, int(to), name, 0)
		if err != nil && linked {
			_ = unix.Unlinkat(int(to), old, 0)
		} else if err != nil {
			err = errors.Join(err, sys.RenameNew(int(to), old, int(to), name))
		}
	}
	if err != nil {
		return "", err
	}
	if aside := k.layer.setAside(to, old, name); aside != "" {
		return aside, nil
	}
	return old, nil
}

// link copies a symbolic link. One that leads out of the kept directory could redirect programs outside, so it is
// copied only if it is named itself.
func (k *keeper) link(from, to sys.FD, one *Kept, depth int) error {
	base, text := path.Base(one.Path), make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(from), base, text)
	if err != nil {
		return err
	}
	target := string(text[:n])
	switch {
	case depth == 0:
		one.Link = target
	case k.o.Held != nil && leadsOut(target, depth-1):
		one.Held = "symbolic link that leads out of what is kept"
		return nil
	}
	if err = unix.Symlinkat(target, int(to), base); err == unix.EEXIST {
		return ErrExists
	}
	return err
}

// leadsOut reports whether a link that many levels below a directory can lead out of it, whatever other links are
// there.
func leadsOut(target string, levels int) bool {
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "..":
			if up++; down { // from wherever a link before it leads
				return true
			}
		case part != "" && part != ".":
			down = true
		}
	}
	return strings.HasPrefix(target, "/") || up > levels
}
