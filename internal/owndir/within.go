//go:build linux

package owndir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Within returns where a path leads, without symbolic links as far as it exists, and whether that is in one of the
// given directories, by whatever name: one can be mounted at several places. A path through /proc can lead everywhere,
// and so does one that cannot be looked at.
func Within(path string, dirs []string) (real string, in bool) {
	real = path
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		at, err := resolve(dir)
		if err == nil {
			real = filepath.Join(at, rest)
			break
		}
		if err != unix.ENOENT {
			return path, true
		}
	}
	if strings.HasPrefix(real+"/", "/proc/") {
		return real, true
	}
	var own []os.FileInfo
	for _, dir := range dirs {
		if fi, err := os.Stat(dir); err == nil {
			own = append(own, fi)
		}
	}
	for dir := real; len(own) > 0; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err == nil && slices.ContainsFunc(own, func(o os.FileInfo) bool { return os.SameFile(fi, o) }) {
			return real, true
		}
		if dir == "/" {
			break
		}
	}
	return real, false
}

// resolve follows the links in a path, except those of /proc that lead where their text does not say.
func resolve(path string) (string, error) {
	n, err := sys.Openat2(unix.AT_FDCWD, path, unix.O_PATH, 0, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return "", err
	}
	fd := sys.FD(n)
	defer fd.Close()
	return os.Readlink(sys.ProcPath(n))
}
