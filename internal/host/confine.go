//go:build linux

package host

import (
	"os"
	"path"
	"strconv"

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
			real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
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

// NewTemp makes a directory for a command's temporary files, which is removed when it is closed.
func NewTemp() (*WorkDir, error) {
	parent := os.TempDir()
	for try := 0; ; try++ {
		dir, err := os.MkdirTemp(parent, tempPrefix)
		if err != nil {
			return nil, &helpful{
				&plan.Error{Op: "make temporary directory in", Path: parent, Err: sys.Bare(err)},
				"export TMPDIR=DIR, with a directory that you can write to",
			}
		}
		lock, err := lockDir(dir)
		if err == nil {
			return &WorkDir{realAsFar(dir), lock}, nil
		}
		_ = os.Remove(dir)
		if try > 10 { // somebody took it for left behind before it was locked
			return nil, &plan.Error{Op: "make directory", Path: dir, Err: sys.Bare(err)}
		}
	}
}

// RemoveTemps removes directories of commands that were killed with the program that ran them.
func RemoveTemps() { removeStale(os.TempDir(), tempPrefix) }
