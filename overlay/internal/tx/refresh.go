//go:build linux

package tx

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/gitindex"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Refresh enters into the new indexes of git what git would find in the project now. Files that a commit puts there
// have other ctimes and inode numbers than in the session: for git they would be changed until it reads them again, and
// plumbing such as diff-index does not. The indexes stay the files that the journal knows, and keep their times.
func (c *Writer) Refresh(f *tree.Flusher) error {
	var nodes map[store.Place]int
	for i, n := range c.Tx.Journal.Nodes {
		if n.Staged == "" || c.planned[i].Work == "" {
			continue
		}
		if nodes == nil {
			nodes = make(map[store.Place]int, len(c.planned))
			for k, n := range c.Tx.Journal.Nodes {
				nodes[store.Place{Root: n.Root, Path: string(n.Path)}] = k
			}
		}
		if err := c.refreshIndex(i, nodes, f); err != nil {
			return &fs.PathError{Op: "write", Path: c.Tx.abs(n), Err: err}
		}
	}
	return nil
}

func (c *Writer) refreshIndex(i int, nodes map[store.Place]int, f *tree.Flusher) error {
	n := c.Tx.Journal.Nodes[i]
	dir, name := tree.SplitPath(string(n.Path))
	d, err := c.Tx.Doors.open(store.Place{Root: n.Root, Path: dir})
	if err != nil {
		return nil // git finds out itself
	}
	h, err := d.Open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	st, err := h.Stat()
	var data []byte
	var x *gitindex.Index
	if err == nil && n.New.same(st) && st.Nlink == 1 && st.Size <= IndexMost {
		data = make([]byte, st.Size)
		if err = tree.ReadFull(h, data, 0); err == nil {
			x, err = gitindex.Parse(data)
		}
	}
	if x == nil {
		h.Close()
		return nil
	}
	parts := x.Refresh(data, func(path string) (was, is gitindex.Seen, ok bool) {
		at := store.Place{Root: n.Root, Path: tree.JoinPath(c.planned[i].Work, path)}
		k, ok := nodes[at]
		if !ok || !c.planned[k].HasUp {
			return was, is, false
		}
		now, ok := c.Tx.look(at)
		return seen(c.planned[k].Up), seen(now), ok && now.Typ() == c.planned[k].Up.Typ()
	})
	if len(parts) == 0 {
		h.Close()
		return nil
	}
	for _, p := range parts {
		if err = tree.WriteFull(h, data[p[0]:p[1]], int64(p[0])); err != nil {
			break
		}
	}
	if err == nil {
		err = h.SetMtime(st.Mtime)
	}
	if err != nil {
		h.Close()
		return err
	}
	return f.AddFile(h)
}

func seen(st tree.Stat) gitindex.Seen {
	return gitindex.Seen{Ctime: st.Ctime, Mtime: st.Mtime.Nano(), Dev: st.Dev, Ino: st.Ino, UID: st.UID, GID: st.GID, Size: st.Size}
}
