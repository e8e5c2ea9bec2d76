//go:build linux

package fanotify

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// beneath is how everything below a root is opened.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// A root is a directory that is watched, held open: whatever its path leads to later, this is the one.
type root struct {
	name string // as the caller has it
	fd   sys.FD
	dev  uint64
	ino  uint64
	gone bool // it was told
}

func openRoots(names []string) (roots []root, err error) {
	if len(names) == 0 {
		return nil, &Error{Op: "watch", Err: unix.EINVAL}
	}
	defer func() {
		if err != nil {
			closeRoots(roots)
		}
	}()
	var paths []string
	for _, name := range names {
		var fd int
		err := sys.Retry(func() (err error) {
			fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			return err
		})
		if err != nil {
			return roots, &Error{Op: "watch", Path: name, Err: err}
		}
		r := root{name: name, fd: sys.FD(fd)}
		roots = append(roots, r)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return roots, &Error{Op: "watch", Path: name, Err: err}
		}
		roots[len(roots)-1].dev, roots[len(roots)-1].ino = uint64(st.Dev), st.Ino
		if len(names) == 1 {
			break // it cannot be inside of another
		}
		path, err := os.Readlink(sys.ProcPath(fd))
		if err != nil {
			return roots, &Error{Op: "watch", Path: name, Err: err}
		}
		for _, p := range paths {
			if _, in := below(path, p); in {
				return roots, &Error{Op: "watch", Path: name, Err: errNested}
			} else if _, in := below(p, path); in {
				return roots, &Error{Op: "watch", Path: name, Err: errNested}
			}
		}
		paths = append(paths, path)
	}
	return roots, nil
}

type nestedError struct{}

func (nestedError) Error() string {
	return "it lies in another directory that is watched, or that in it"
}
func (nestedError) Unwrap() error { return unix.EINVAL }

var errNested nestedError

func closeRoots(roots []root) {
	for i := range roots {
		roots[i].fd.Close()
	}
}

// removed reports whether the root's directory has been removed.
func (r *root) removed() bool {
	var st unix.Stat_t
	return unix.Fstat(int(r.fd), &st) == nil && st.Nlink == 0
}

// below returns what of path comes below dir, both clean and absolute; "." if they are the same.
func below(path, dir string) (rel string, ok bool) {
	if path == dir {
		return ".", true
	}
	if dir != "/" {
		if path, ok = strings.CutPrefix(path, dir); !ok {
			return "", false
		}
	}
	return strings.CutPrefix(path, "/")
}

// openAt opens a name relative to a directory, which may be a path with slashes however long.
func openAt(dir int, path string, flags uint64) (sys.FD, error) {
	const most = 4000 // the kernel takes 4,095
	var held sys.FD = sys.None
	defer held.Close()
	for len(path) > most {
		i := strings.LastIndexByte(path[:most], '/')
		if i < 0 {
			return sys.None, unix.ENAMETOOLONG
		}
		fd, err := openAt(dir, path[:i], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return sys.None, err
		}
		held.Close()
		held, dir, path = fd, int(fd), path[i+1:]
	}
	fd, err := sys.Openat2(dir, path, flags|unix.O_NOFOLLOW, 0, beneath)
	return sys.FD(fd), err
}

// appendHandle appends the file handle of path below dir in the form that records of
// fanotify have it: its length, its type, its bytes.
func appendHandle(key []byte, dir int, path string) ([]byte, error) {
	flags := 0
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	}
	h, _, err := unix.NameToHandleAt(dir, path, flags)
	if err != nil {
		return nil, err
	}
	key = binary.NativeEndian.AppendUint32(key, uint32(h.Size()))
	key = binary.NativeEndian.AppendUint32(key, uint32(h.Type()))
	return append(key, h.Bytes()...), nil
}

// splitHandle is the other direction.
func splitHandle(key []byte) unix.FileHandle {
	return unix.NewFileHandle(int32(binary.NativeEndian.Uint32(key[4:])), key[8:])
}

// names lists a directory, unsorted; what a name is, where the file system tells, is in
// types (unix.DT_DIR and the like).
func names(fd int, each func(name string, typ uint8)) error {
	buf := make([]byte, 32<<10)
	for {
		n := 0
		err := sys.Retry(func() (err error) { n, err = unix.Getdents(fd, buf); return err })
		if err != nil {
			return err
		}
		if n <= 0 {
			return nil
		}
		for b := buf[:n]; len(b) >= 19; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size < 19 || size > len(b) {
				return unix.EIO
			}
			name := b[19:size]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			if s := string(name); s != "." && s != ".." {
				each(s, b[18])
			}
			b = b[size:]
		}
	}
}

// absolute is a path for messages.
func absolute(root, path string) string { return filepath.Join(root, path) }
