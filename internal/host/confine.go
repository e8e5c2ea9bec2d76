//go:build linux

package host

import (
	"cmp"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// Files implements the questions of plan.Confine about the file system.
func Files() plan.Host { return plan.Host{Real: realAsFar, List: list} }

// realAsFar resolves the links of a path, as far as the path exists.
func realAsFar(name string) string {
	rest := ""
	for at := path.Clean(name); at != "/"; at = path.Dir(at) {
		fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			real, err := os.Readlink(sys.ProcPath(fd))
			_ = unix.Close(fd)
			if err == nil {
				return path.Join(real, rest)
			}
		}
		rest = path.Join(path.Base(at), rest)
	}
	return path.Join("/", rest)
}

// list lists a directory. If the caller cannot list it, the command cannot use its content either, except by a rule of
// its own.
func list(dir string) (entries []confine.Entry, err error) {
	f, err := openDir(dir)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	all, err := f.ReadDir(-1)
	for _, e := range all {
		if t := e.Type(); t&(os.ModeSymlink|os.ModeSocket) == 0 {
			entries = append(entries, confine.Entry{Name: e.Name(), File: !e.IsDir()})
		}
	}
	return entries, sys.Bare(err)
}

const tempPrefix = ".nsrun-tmp-"

// tempParents are the directories for temporary files, the first one first: that of TMPDIR alone, or those that hosts
// have where nobody can write to /tmp, as in a container with a read-only root.
func tempParents() []string {
	if os.Getenv("TMPDIR") != "" {
		return []string{os.TempDir()}
	}
	list := []string{os.TempDir(), "/var/tmp", "/dev/shm"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		list = append(list, dir)
	}
	return list
}

// NewTemp makes a directory for a command's temporary files, which is removed when it is closed.
func NewTemp() (*WorkDir, error) { return newTemp(tempParents()) }

// newTemp makes it in the first directory in which it can.
func newTemp(parents []string) (*WorkDir, error) {
	var first error
	for _, parent := range parents {
		w, err := newTempIn(parent)
		if err == nil {
			return w, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, &helpful{
		&plan.Error{Op: "make temporary directory in", Path: parents[0], Err: sys.Bare(first)},
		"export TMPDIR=DIR, with a directory that you can write to",
	}
}

func newTempIn(parent string) (*WorkDir, error) {
	for try := 0; ; try++ {
		dir, err := os.MkdirTemp(parent, tempPrefix)
		if err != nil {
			return nil, err
		}
		lock, err := lockDir(dir)
		if err == nil {
			return &WorkDir{realAsFar(dir), lock}, nil
		}
		_ = os.Remove(dir)
		if try > 10 { // somebody took it for left behind before it was locked
			return nil, err
		}
	}
}

// RemoveTemps removes directories of commands that were killed with the program that ran them.
func RemoveTemps() {
	for _, parent := range tempParents() {
		removeStale(parent, tempPrefix)
	}
}
