//go:build linux

package store

import (
	"context"
	"strings"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Tally is the space that a tree uses on a disk.
type Tally struct {
	Bytes int64 // as du(1) counts them: files with several names once, holes not at all
	Files int64 // files of all kinds, directories too
	// Partial says that something was not counted: a directory that cannot be listed, was removed meanwhile, or has
	// too long a path.
	Partial bool
}

func (t *Tally) add(st tree.Stat) { t.Bytes, t.Files = t.Bytes+st.Blocks*512, t.Files+1 }

// DiskUsage counts the directory top and everything below it. It opens directories by their
// paths from top, so that it needs two descriptors for a tree of any shape.
func DiskUsage(ctx context.Context, top *tree.Handle) (sum Tally, err error) {
	st, err := top.Stat()
	if err != nil {
		return sum, err
	}
	sum.add(st)
	seen := map[tree.Inode]bool{}
	todo := []string{"."}
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d, err := top.OpenDir(at)
		if err != nil {
			sum.Partial = sum.Partial || !kernelOwn(at)
			continue
		}
		names, err := d.Names()
		if err != nil {
			sum.Partial = true
		}
		for _, name := range names {
			st, err := d.Lstat(name)
			if err != nil {
				continue
			}
			if !st.IsDir() && st.Nlink > 1 {
				id := tree.Inode{Dev: st.Dev, Ino: st.Ino}
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			sum.add(st)
			if !st.IsDir() {
				continue
			}
			if p := tree.JoinPath(at, name); len(p) < tree.MaxPath {
				todo = append(todo, p)
			} else {
				sum.Partial = true
			}
		}
		d.Close()
	}
	return sum, nil
}

// kernelOwn reports whether a directory of a session is the one that the kernel makes for itself, with mode 0. Commands
// cannot reach it, and the kernel moves what is in it to the upper directory.
func kernelOwn(at string) bool {
	layer, ok := strings.CutSuffix(at, "/work")
	return ok && strings.Count(layer, "/") == 1 && (strings.HasPrefix(layer, "work/") || strings.HasPrefix(layer, ScratchName+"/work"))
}

// HoldsData reports whether a session directory has anything that a new session does not have.
func HoldsData(d *tree.Handle) (bool, error) {
	names, err := d.Names()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		switch {
		case name == LockName, name == MetaName, name == LastName, name == UnsyncedName, name == "work", name == ScratchName, name == MemName:
		case strings.HasPrefix(name, "."+MetaName+"."): // half of it, see writeMeta
		case name == "upper":
			up, err := d.OpenDir(name)
			if err != nil {
				return false, err
			}
			data, err := holdsChanges(up)
			up.Close()
			if data || err != nil {
				return data, err
			}
		default:
			return true, nil
		}
	}
	return false, nil
}

// holdsChanges reports whether any of the upper directories in up has something in it.
func holdsChanges(up *tree.Handle) (bool, error) {
	roots, err := up.Names()
	if err != nil {
		return false, err
	}
	for _, root := range roots {
		d, err := up.OpenDir(root)
		if err != nil {
			return false, err
		}
		in, err := d.Names()
		d.Close()
		if len(in) > 0 || err != nil {
			return true, err
		}
	}
	return false, nil
}
