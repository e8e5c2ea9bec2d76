//go:build linux

package project

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// madeDirs are directories that were made for a file, from the outermost to that of the file.
type madeDirs []madeDir

type madeDir struct {
	in   *dir // which it is in
	name string
	ino  uint64
}

// makeParents opens the directory of path, step by step without following links. It makes missing directories, and
// returns them also with an error.
func makeParents(path string) (_ *dir, made madeDirs, err error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	d := newDir(fd, "/")
	for name := range strings.SplitSeq(strings.Trim(filepath.Dir(path), "/"), "/") {
		if name == "" {
			continue
		}
		next, err := openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		held := false
		if err == unix.ENOENT {
			if err = sys.Mkdir(int(d.fd), name, 0o777); err == nil {
				made, held = append(made, madeDir{in: d, name: name}), true
			}
			if err == nil || err == unix.EEXIST {
				next, err = openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
			}
		}
		if err == nil && held {
			var st unix.Stat_t
			if err = unix.Fstat(int(next), &st); err != nil {
				next.Close()
			}
			made[len(made)-1].ino = st.Ino
		}
		at := filepath.Join(d.path, name)
		if !held {
			d.close()
		}
		if err != nil {
			return nil, made, wrap("open directory", at, err)
		}
		d = &dir{next, at}
	}
	// A descriptor that can be flushed.
	last, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	d.close()
	if err != nil {
		return nil, made, wrap("open directory", d.path, err)
	}
	return &dir{last, d.path}, made, nil
}

// sync waits until the directories are on disk.
func (made madeDirs) sync() error {
	for _, m := range made {
		up, err := openat(m.in.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == unix.EACCES { // a directory that may not be listed cannot be flushed
			continue
		}
		if err == nil {
			err = sys.Fsync(int(up))
			up.Close()
		}
		if err != nil {
			return wrap("flush directory", m.in.path, err)
		}
	}
	return nil
}

// remove removes the directories, as far as they are empty and still the same.
func (made madeDirs) remove() {
	for i := range made {
		m := made[len(made)-1-i]
		st, err := m.in.lstat(m.name)
		if err != nil || m.ino != 0 && st.Ino != m.ino || m.in.unlink(m.name, unix.AT_REMOVEDIR) != nil {
			return
		}
	}
}

func (made madeDirs) close() {
	for _, m := range made {
		m.in.close()
	}
}

// inodes are those of the directories.
func (made madeDirs) inodes() (list []uint64) {
	for _, m := range made {
		list = append(list, m.ino)
	}
	return list
}

// findMade finds the directories again: those with these inodes, the last of which was at path.
func findMade(path string, inodes []uint64) (made madeDirs, err error) {
	top, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	for i := range inodes {
		ino := inodes[len(inodes)-1-i]
		name := filepath.Base(path)
		path = filepath.Dir(path)
		fd, err := openat(sys.FD(top), "."+path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if missing(err) {
			continue
		}
		if err != nil {
			return made, err
		}
		made = append(madeDirs{{&dir{fd, path}, name, ino}}, made...)
	}
	return made, nil
}
