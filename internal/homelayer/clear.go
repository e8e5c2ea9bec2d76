//go:build linux

package homelayer

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Clear removes from the upper directory whatever prevents the given paths from being directories or files, and returns
// what it removed.
func (l *Layer) Clear(dirs, files []string) (removed []string) {
	own := "."
	if l.run != "" {
		own = runsName + "/" + l.run
	}
	upper, err := openUpper(l.dir, own)
	if err != nil {
		return nil
	}
	defer upper.Close()
	for _, name := range dirs {
		if at := clearWay(upper, name, unix.S_IFDIR); at != "" {
			removed = append(removed, at)
		}
	}
	for _, name := range files {
		if at := clearWay(upper, name, unix.S_IFREG); at != "" {
			removed = append(removed, at)
		}
	}
	return removed
}

// clearWay removes the first object that prevents name from existing, and returns its path.
func clearWay(upper sys.FD, name string, last uint32) string {
	parts := strings.Split(name, "/")
	at, own := upper, false
	defer func() {
		if own {
			at.Close()
		}
	}()
	for i, part := range parts {
		want := uint32(unix.S_IFDIR)
		if i == len(parts)-1 {
			want = last
		}
		var st unix.Stat_t
		if unix.Fstatat(int(at), part, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return ""
		}
		if st.Mode&unix.S_IFMT != want {
			if removeTree(at, part) != nil {
				return ""
			}
			return strings.Join(parts[:i+1], "/")
		}
		if want != unix.S_IFDIR {
			return ""
		}
		next, err := openAt(at, part, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return ""
		}
		if own {
			at.Close()
		}
		at, own = next, true
	}
	return ""
}
