//go:build linux

package homelayer

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/sys"
)

// deepest is how many levels of directories are merged. What is deeper is left out.
const deepest = 100

// runNames are the names in runs, oldest first.
func runNames(runs sys.FD) ([]string, error) {
	names, err := sys.Names(int(runs), make([]byte, 16<<10))
	names = slices.DeleteFunc(names, func(name string) bool { return name == movedName })
	slices.Sort(names)
	return names, err
}

// mergeRuns merges runs into the layer, oldest first. The caller has the write lock, and afterwards also the users'
// lock if there were runs. Not ok: somebody uses the layer.
func (l *Layer) mergeRuns() (ok bool, err error) {
	runs, err := openAt(l.dir, runsName, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer runs.Close()
	if ok, err = lock(l.lock, unix.F_WRLCK, using); !ok {
		return false, err
	}
	names, err := runNames(runs)
	if err != nil {
		return false, err
	}
	upper, err := openSub(l.dir, upperName)
	if err != nil {
		return false, err
	}
	defer upper.Close()
	home, err := openHome(l.home)
	if err != nil {
		return false, err
	}
	defer home.Close()
	book, err := openBook(runs)
	if err != nil {
		return false, err
	}
	defer book.close()
	for _, name := range names {
		if !strings.HasSuffix(name, ended) && !vacant(name+"/"+upperName) {
			return false, nil
		}
		if err = mergeRun(runs, name, upper, home, book); err != nil {
			return false, err
		}
	}
	err = removeTree(l.dir, runsName)
	return err == nil, err
}

// mergeRun merges one run into the layer and removes it. It can be interrupted and repeated.
func mergeRun(runs sys.FD, name string, upper, home sys.FD, book *book) error {
	dir, err := openAt(runs, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	var began unix.Stat_t
	from := sys.None
	err = unix.Fstatat(int(dir), lockName, &began, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		from, err = openSub(dir, upperName)
	}
	if errors.Is(err, unix.ENOENT) { // killed before it began, or after it was merged
		return removeTree(runs, name)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	seen, err := readSmall(dir, seenName)
	if err != nil {
		return err
	}
	m := merger{began: began.Ctim, run: name, seen: strings.Split(seen, "\n"), book: book}
	if err := m.dir(from, upper, home, "", 0); err != nil {
		return err
	}
	return removeTree(runs, name)
}

func openHome(path string) (sys.FD, error) {
	n, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(n), nil
}

type merger struct {
	began unix.Timespec
	run   string
	seen  []string // runs that had ended when this one began
	book  *book
}

// dir merges a directory. If both sides wrote one of its files, all files of the other side in it are left out, because
// they may belong together like a database and its log. A deletion mark is left out if the home directory has no such
// name: overlays would list the mark.
func (m *merger) dir(from, to, home sys.FD, at string, depth int) error {
	names, err := sys.Names(int(from), make([]byte, 16<<10))
	if err != nil {
		return err
	}
	var dirs, files, both, deleted []string
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(from), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			dirs = append(dirs, name)
		case m.changed(to, name, at):
			both = append(both, name)
		case st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 && !exists(home, name):
			deleted = append(deleted, name)
		default:
			files = append(files, name)
		}
	}
	if len(both) > 0 { // which go last: they tell that it is so, if this is begun again
		for _, name := range slices.Concat(files, deleted, both) {
			if err := removeTree(from, name); err != nil {
				return err
			}
		}
		files, deleted = nil, nil
	}
	for _, name := range deleted {
		err := removeTree(to, name)
		if err == nil { // the mark goes last: it tells that there is something to remove
			err = removeTree(from, name)
		}
		if err != nil {
			return err
		}
	}
	whole := slices.DeleteFunc(slices.Clone(dirs), func(name string) bool { return exists(to, name) })
	if err := m.book.write(m.run, at, slices.Concat(files, whole)); err != nil {
		return err
	}
	for _, name := range files {
		if err := rename(from, to, name, false); err != nil && err != unix.EISDIR && err != unix.ENOTEMPTY && err != unix.EEXIST {
			return err
		}
	}
	for _, name := range dirs {
		if err := m.move(from, to, home, name, at, depth); err != nil {
			return err
		}
	}
	return nil
}

// changed reports whether the layer has an object of this name that is newer than the run and that the run did not see.
func (m *merger) changed(to sys.FD, name, at string) bool {
	var st unix.Stat_t
	if unix.Fstatat(int(to), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	if c := st.Ctim; c.Sec < m.began.Sec || c.Sec == m.began.Sec && c.Nsec < m.began.Nsec {
		return false
	}
	of := m.book.of(at+name, m.run)
	return of == "" || !slices.Contains(m.seen, of) // moving changes the time, too
}

// move moves a directory, or its content if the layer also has it.
func (m *merger) move(from, to, home sys.FD, name, at string, depth int) error {
	err := rename(from, to, name, true)
	if err != unix.EEXIST {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(to), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if m.changed(to, name, at) {
			return nil // it stays behind, and is removed with the run
		}
		if err := m.book.write(m.run, at, []string{name}); err != nil {
			return err
		}
		if err := removeTree(to, name); err != nil {
			return err
		}
		return rename(from, to, name, true)
	}
	if depth == deepest {
		return nil
	}
	source, err := openSub(from, name)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openSub(to, name)
	if err != nil {
		return err
	}
	defer target.Close()
	below, err := openAt(home, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		below = sys.None // in which nothing exists
	}
	defer below.Close()
	return m.dir(source, target, below, at+name+"/", depth+1)
}

// rename moves a name to the other directory; with free, the name must not exist there. It gives a directory the
// permission that this needs.
func rename(from, to sys.FD, name string, free bool) error {
	once := func() error {
		if free {
			return sys.RenameNew(int(from), name, int(to), name)
		}
		return sys.Renameat2(int(from), name, int(to), name, 0)
	}
	err := once()
	if err == unix.EACCES {
		if d, _, oerr := deep.OpenForRemoval(int(from), name); oerr == nil {
			unix.Close(d)
			err = once()
		}
	}
	return err
}

func removeTree(dir sys.FD, name string) error { return deep.Remove(int(dir), name) }
