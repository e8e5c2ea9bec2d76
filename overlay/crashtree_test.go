//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// What crash tests do with whole trees: copy them, see all that can be told of them,
// and make an upper directory out of two.

// listXattrs lists the attributes of an object, "" where there can be none.
func listXattrs(p string) (map[string]string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(p, buf)
	if n <= 0 || err == unix.EOPNOTSUPP || err == unix.EACCES || err == unix.EPERM {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		v := make([]byte, 4096)
		k, err := unix.Lgetxattr(p, name, v)
		if err == unix.EACCES || err == unix.EPERM {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p, name, err)
		}
		set[name] = string(v[:k])
	}
	return set, nil
}

// copyTo makes the object at from, which is as st says, at to, without what is in it
// if it is a directory, and without its time.
func copyTo(from, to string, st *unix.Stat_t) error {
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = unix.Mkdir(to, 0o700)
	case unix.S_IFLNK:
		var text string
		if text, err = os.Readlink(from); err == nil {
			err = unix.Symlink(text, to)
		}
	case unix.S_IFREG:
		// A process that another goroutine has just forked has the files open until it executes a program. A
		// commit copies files that are open anywhere, instead of moving them.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var in, out *os.File
		if in, err = os.Open(from); err != nil {
			return err
		}
		defer in.Close()
		if out, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		if st.Blocks*512 < st.Size { // holes at the end are enough here
			err = out.Truncate(st.Size)
		} else {
			_, err = out.ReadFrom(in)
		}
		err = errors.Join(err, out.Close())
	default:
		err = unix.Mknod(to, st.Mode, int(st.Rdev))
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	xattrs, err := listXattrs(from)
	if err != nil {
		return err
	}
	for name, v := range xattrs {
		if err := unix.Lsetxattr(to, name, []byte(v), 0); err != nil {
			return fmt.Errorf("%s: %s: %w", to, name, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := unix.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// finishObject gives the copy mode and time, when all is in it.
func finishObject(to string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(to, st.Mode&0o7777); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, st.Mtim}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, to, ts, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	return nil
}

// copyTree copies the content of the directory from, with its attributes, to the directory to, which exists and is
// empty.
func copyTree(from, to string) error {
	links := map[uint64]string{}
	var copyTree func(from, to string, st *unix.Stat_t) error
	copyTree = func(from, to string, st *unix.Stat_t) error {
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			f, t := from+"/"+e.Name(), to+"/"+e.Name()
			var st unix.Stat_t
			if err := unix.Lstat(f, &st); err != nil {
				return err
			}
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			if first, ok := links[st.Ino]; ok && !isDir {
				if err := unix.Link(first, t); err != nil {
					return err
				}
				continue
			}
			if st.Nlink > 1 && !isDir {
				links[st.Ino] = t
			}
			if err := copyTo(f, t, &st); err != nil {
				return err
			}
			if isDir {
				err = copyTree(f, t, &st)
			} else {
				err = finishObject(t, &st)
			}
			if err != nil {
				return err
			}
		}
		return finishObject(to, st)
	}
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	xattrs, err := listXattrs(from)
	if err != nil {
		return err
	}
	for name, v := range xattrs {
		if err := unix.Lsetxattr(to, name, []byte(v), 0); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := unix.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return copyTree(from, to, &st)
}

// fingerprint is all that a commit must get right of a tree, a line per object: path,
// type, mode, owner, attributes, modification time, content, and which names are one file.
func fingerprint(root string) ([]string, error) {
	var list []string
	// A backup may be one more name of a file: only names in the tree count.
	names := map[uint64][]string{}
	at := map[int]uint64{} // which lines are about which file
	var visit func(path, rel string) error
	visit = func(path, rel string) error {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%q %o %d:%d at %d.%09d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		xattrs, err := listXattrs(path)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for n := range xattrs {
				if !yield(n) {
					return
				}
			}
		}) {
			fmt.Fprintf(&b, " %s=%q", name, xattrs[name])
		}
		var entries []fs.DirEntry
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			syscall.ForkLock.RLock() // as in the copy above
			data, err := os.ReadFile(path)
			syscall.ForkLock.RUnlock()
			if err != nil {
				b.WriteString(" unreadable")
			} else if len(data) < 64 {
				fmt.Fprintf(&b, " %q", data)
			} else {
				fmt.Fprintf(&b, " %d bytes %x", len(data), hash(data))
			}
			if st.Nlink > 1 {
				names[st.Ino] = append(names[st.Ino], rel)
				at[len(list)] = st.Ino
			}
		case unix.S_IFLNK:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %q", text)
		case unix.S_IFCHR, unix.S_IFBLK:
			fmt.Fprintf(&b, " device %d", st.Rdev)
		case unix.S_IFDIR:
			if entries, err = os.ReadDir(path); err != nil {
				b.WriteString(" unreadable")
				below, err := hidden(path, rel)
				list = append(list, below...)
				if err != nil {
					return err
				}
			}
		}
		list = append(list, b.String())
		for _, e := range entries {
			if err := visit(path+"/"+e.Name(), rel+"/"+e.Name()); err != nil {
				if errors.Is(err, fs.ErrPermission) {
					list = append(list, fmt.Sprintf("%q unreachable", rel+"/"+e.Name()))
					continue
				}
				return err
			}
		}
		return nil
	}
	err := visit(root, ".")
	for i, ino := range at {
		if n := names[ino]; len(n) > 1 {
			list[i] += fmt.Sprintf(" is %q, %d names", n[0], len(n))
		}
	}
	return list, err
}

// hidden is the fingerprint of what is in a directory that the owner may not list.
func hidden(path, rel string) (list []string, err error) {
	h, err := tree.OpenAbs(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	top := &tree.Real{H: h.With(&store.Opener{})}
	defer top.Close()
	_, err = tree.WalkBelow(top, ".", func(f tree.Found) bool {
		var text []byte
		if f.Stat.IsReg() {
			text, err = tree.Read(top, f.Path, f.Stat)
		}
		list = append(list, fmt.Sprintf("%q %o %d:%d at %d.%09d %q hidden", rel+"/"+f.Path, f.Stat.Mode, f.Stat.UID, f.Stat.GID, f.Stat.Mtime.Sec, f.Stat.Mtime.Nsec, text))
		return err == nil
	})
	return list, err
}

// hash is FNV-1a.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// prints are the fingerprints of several trees.
func prints(t testing.TB, roots ...string) []string {
	t.Helper()
	var list []string
	for i, r := range roots {
		l, err := fingerprint(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range l {
			list = append(list, fmt.Sprintf("%d:%s", i+1, line))
		}
	}
	return list
}

// difference is what of the lines got is not in want, and the other way round.
func difference(got, want []string) (diff []string) {
	has := func(list []string) map[string]bool {
		m := map[string]bool{}
		for _, l := range list {
			m[l] = true
		}
		return m
	}
	g, w := has(got), has(want)
	for _, l := range want {
		if !g[l] {
			diff = append(diff, "- "+l)
		}
	}
	for _, l := range got {
		if !w[l] {
			diff = append(diff, "+ "+l)
		}
	}
	return diff
}

// A family are inode numbers by path: an object that was removed and made anew has
// another one.
type family map[string]uint64

func inodesOf(root string) (family, error) {
	f := family{}
	return f, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		f[rel] = st.Ino
		return nil
	})
}

// makeUpperTree writes into the empty directory upper what overlayfs would have written
// if a command had made after out of before. was are the inodes that after had when it
// was a copy of before.
func makeUpperTree(before, after, upper string, was family) error {
	links := map[uint64]string{}
	lstat := func(p string) *unix.Stat_t {
		var st unix.Stat_t
		if unix.Lstat(p, &st) != nil {
			return nil
		}
		return &st
	}
	// A file with a new name appears under all its names.
	linked := map[uint64]bool{}
	err := filepath.WalkDir(after, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(after, p)
		if st := lstat(p); !d.IsDir() && st.Nlink > 1 && was[rel] != st.Ino {
			linked[st.Ino] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	made := map[string]bool{".": true}
	var need func(rel string) error // makes a directory of upper, and those above it
	need = func(rel string) error {
		if made[rel] {
			return nil
		}
		made[rel] = true
		if err := need(filepath.Dir(rel)); err != nil {
			return err
		}
		return copyTo(filepath.Join(after, rel), filepath.Join(upper, rel), lstat(filepath.Join(after, rel)))
	}
	// dir writes what differs in one directory; merged: it is seen together with the
	// project's.
	var dir func(rel string, merged bool) error
	dir = func(rel string, merged bool) error {
		names := map[string]bool{}
		entries, err := os.ReadDir(filepath.Join(after, rel))
		if err != nil {
			return err
		}
		for _, e := range entries {
			names[e.Name()] = true
		}
		if merged {
			if entries, err = os.ReadDir(filepath.Join(before, rel)); err != nil {
				return err
			}
			for _, e := range entries {
				names[e.Name()] = true
			}
		}
		for name := range names {
			p := filepath.Join(rel, name)
			up := filepath.Join(upper, p)
			a := lstat(filepath.Join(after, p))
			var b *unix.Stat_t
			if merged {
				b = lstat(filepath.Join(before, p))
			}
			if a == nil {
				if err := need(rel); err != nil {
					return err
				}
				if err := unix.Mknod(up, unix.S_IFCHR, 0); err != nil {
					return err
				}
				continue
			}
			if a.Mode&unix.S_IFMT == unix.S_IFDIR {
				same := b != nil && b.Mode&unix.S_IFMT == unix.S_IFDIR
				kept := same && was[p] == a.Ino
				x, err := objectDiffers(filepath.Join(before, p), filepath.Join(after, p), b, a)
				if err != nil {
					return err
				}
				if !kept || x {
					if err := need(p); err != nil {
						return err
					}
				}
				if same && !kept {
					if err := unix.Setxattr(up, "user.overlay.opaque", []byte("y"), 0); err != nil {
						return err
					}
				}
				if err := dir(p, kept); err != nil {
					return err
				}
				continue
			}
			differs, err := objectDiffers(filepath.Join(before, p), filepath.Join(after, p), b, a)
			if err != nil {
				return err
			}
			if !differs && was[p] == a.Ino && !linked[a.Ino] {
				continue
			}
			if err := need(rel); err != nil {
				return err
			}
			if first, ok := links[a.Ino]; ok {
				if err := unix.Link(first, up); err != nil {
					return err
				}
				continue
			}
			links[a.Ino] = up
			if err := copyTo(filepath.Join(after, p), up, a); err != nil {
				return err
			}
			if err := finishObject(up, a); err != nil {
				return err
			}
		}
		return nil
	}
	if err := dir(".", true); err != nil {
		return err
	}
	// Modes and times last, the innermost first: the paths of a directory are longer.
	dirs := slices.SortedFunc(func(yield func(string) bool) {
		for d := range made {
			if !yield(d) {
				return
			}
		}
	}, func(a, b string) int { return len(b) - len(a) })
	for _, d := range dirs {
		if err := finishObject(filepath.Join(upper, d), lstat(filepath.Join(after, d))); err != nil {
			return err
		}
	}
	return nil
}

// objectDiffers compares two objects but for what is in a directory.
func objectDiffers(before, after string, b, a *unix.Stat_t) (bool, error) {
	if b == nil || a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Mtim != b.Mtim || a.Rdev != b.Rdev {
		return true, nil
	}
	x, err := listXattrs(before)
	if err != nil {
		return false, err
	}
	y, err := listXattrs(after)
	if err != nil {
		return false, err
	}
	if fmt.Sprint(x) != fmt.Sprint(y) {
		return true, nil
	}
	switch a.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if a.Size != b.Size {
			return true, nil
		}
		x, err := os.ReadFile(before)
		if err != nil {
			return false, err
		}
		y, err := os.ReadFile(after)
		return string(x) != string(y), err
	case unix.S_IFLNK:
		x, err := os.Readlink(before)
		if err != nil {
			return false, err
		}
		y, err := os.Readlink(after)
		return x != y, err
	}
	return false, nil
}
