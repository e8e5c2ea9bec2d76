//go:build linux

package overlay

import (
	"context"
	"path/filepath"
	"strings"
)

// Usage returns how many bytes the session takes on disk, as du(1) counts them: files
// with several names once, holes not at all. What the caller cannot list is left out.
// When ctx ends, the error is its, and the number is what was counted until then.
func (i Info) Usage(ctx context.Context) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &Error{Op: "measure session", Path: i.Dir, Err: err} }
	_, state, err := openStateDir(filepath.Dir(i.Dir), false)
	if err != nil {
		return fail(bare(err))
	}
	defer state.close()
	d, err := openOwned(state, filepath.Base(i.Dir))
	if err != nil {
		return fail(err)
	}
	defer d.close()
	return diskUsage(ctx, d)
}

// diskUsage counts the directory top and what is below it. Directories are opened by
// their paths from top, so that a tree of any shape takes two descriptors; what lies
// deeper than a path can be long is not counted.
func diskUsage(ctx context.Context, top *handle) (bytes int64, err error) {
	st, err := top.stat()
	if err != nil {
		return 0, err
	}
	bytes = st.blocks * 512
	seen := map[inode]bool{}
	todo := []string{"."}
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return bytes, err
		}
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d, err := top.openDir(at)
		if err != nil {
			continue // gone, or the command made it unreadable
		}
		names, err := d.names()
		if err != nil {
			d.close()
			continue
		}
		for _, name := range names {
			st, err := d.lstat(name)
			if err != nil {
				continue
			}
			if !st.isDir() && st.nlink > 1 {
				id := inode{st.dev, st.ino}
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			bytes += st.blocks * 512
			if p := joinPath(at, name); st.isDir() && len(p) < maxPath {
				todo = append(todo, p)
			}
		}
		d.close()
	}
	return bytes, nil
}

// holdsData reports whether there is anything in a session directory but what every
// new session has.
func holdsData(d *handle) (bool, error) {
	names, err := d.names()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		switch {
		case name == lockName, name == metaName, name == lastName, name == "work", name == scratchName, name == memName:
		case strings.HasPrefix(name, "."+metaName+"."): // half of it, see writeMeta
		case name == "upper":
			up, err := d.openDir(name)
			if err != nil {
				return false, err
			}
			data, err := holdsChanges(up)
			up.close()
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
func holdsChanges(up *handle) (bool, error) {
	roots, err := up.names()
	if err != nil {
		return false, err
	}
	for _, root := range roots {
		d, err := up.openDir(root)
		if err != nil {
			return false, err
		}
		in, err := d.names()
		d.close()
		if len(in) > 0 || err != nil {
			return true, err
		}
	}
	return false, nil
}
