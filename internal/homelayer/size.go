//go:build linux

package homelayer

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/sys"
)

// The age of measuredName tells when the layer was last measured, which happens as seldom as often.
const (
	measuredName = "measured"
	often        = time.Hour
)

// usage returns the disk usage of a directory, with hard links counted once.
func usage(dir sys.FD) (size int64) {
	seen := map[uint64]bool{}
	_ = deep.Walk(int(dir), func(st *unix.Stat_t) {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
			if seen[st.Ino] {
				return
			}
			seen[st.Ino] = true
		}
		size += st.Blocks * 512
	})
	return size
}

// Wrote returns how many bytes and files the command wrote so far, if it has a directory of its own. partial says that
// something was not counted: directories that cannot be listed, or that were moved meanwhile.
func (l *Layer) Wrote() (bytes, files int64, partial bool) {
	if l == nil || l.run == "" {
		return 0, 0, false
	}
	upper, err := openAt(l.dir, runsName+"/"+l.run+"/"+upperName, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return 0, 0, true
	}
	defer upper.Close()
	err = deep.Walk(int(upper), func(st *unix.Stat_t) { bytes, files = bytes+st.Blocks*512, files+1 })
	return bytes, files, err != nil
}

func (l *Layer) due() bool { return !stamped(l.dir, measuredName, often) }

// stamped reports whether a file is younger than ago. If the clock was set back since, it is not.
func stamped(dir sys.FD, name string, ago time.Duration) bool {
	var st unix.Stat_t
	if unix.Fstatat(int(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	age := time.Since(time.Unix(st.Mtim.Unix()))
	return age >= 0 && age <= ago
}

// Bound removes caches, largest first, if the layer is larger than limit, or all of the layer if that is not enough. It
// measures if now is set or the last measurement is old. The command has the layer alone and has ended. It returns what
// it removed; an empty path stands for all.
func (l *Layer) Bound(limit int64, caches []string, now bool) (removed []string, err error) {
	if l.run != "" || !now && !l.due() {
		return nil, nil
	}
	fail := func(err error) ([]string, error) {
		return removed, &fs.PathError{Op: "measure home layer", Path: l.path, Err: sys.Bare(err)}
	}
	ok, err := lock(l.lock, unix.F_WRLCK, using)
	if err != nil {
		return fail(err)
	}
	if !ok {
		return nil, nil // others use it: one of them will be the last
	}
	upper, err := openSub(l.dir, upperName)
	if err != nil {
		return fail(err)
	}
	defer upper.Close()
	size := usage(upper)
	if size > limit {
		removed, size, err = shrink(upper, size, limit, caches)
	}
	if err == nil && size > limit {
		removed, err = []string{""}, errorOf(deep.Empty(int(upper), nil))
	}
	if err != nil {
		return fail(err)
	}
	_ = unix.Unlinkat(int(l.dir), measuredName, 0)
	if err = writeFile(l.dir, measuredName, ""); err != nil {
		return fail(err)
	}
	return removed, nil
}

func errorOf(err error) error {
	if e, ok := err.(*deep.Error); ok {
		return e.Err
	}
	return err
}

// shrink removes caches until the next command has room.
func shrink(upper sys.FD, size, limit int64, caches []string) (removed []string, left int64, err error) {
	type cache struct {
		name string
		size int64
	}
	var list []cache
	for _, name := range caches {
		if strings.Contains(name, "..") {
			continue
		}
		if dir, err := openAt(upper, name, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			list = append(list, cache{name, usage(dir)})
			dir.Close()
		}
	}
	slices.SortStableFunc(list, func(a, b cache) int { return cmp.Compare(b.size, a.size) })
	for _, c := range list {
		if size <= limit-limit/4 {
			break
		}
		dir, err := openAt(upper, c.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		err = errorOf(deep.Empty(int(dir), nil))
		dir.Close()
		if err != nil {
			return removed, size, err
		}
		removed, size = append(removed, c.name), size-c.size
	}
	return removed, size, nil
}
