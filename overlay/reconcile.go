//go:build linux

package overlay

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/nsrun/nsrun/internal/gitindex"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// A verdict says what happens to a file that both sides changed. The zero verdict: it is a conflict.
type verdict uint8

const (
	takeOurs    verdict = iota + 1 // nothing is lost with the session's version
	takeTheirs                     // nothing is lost with the project's version
	takeMerged                     // node.merged
	askedOfBoth                    // a conflict whose parts were told
)

// reconcile combines what both sides did to a file of git's, if possible.
func (c *commit) reconcile(n *node) (verdict, []Conflict, error) {
	at := store.Place{Root: n.root, Path: n.Path}
	kind := c.s.gitFileAt(at)
	if !n.HasUp || !n.HasLow || !n.Up.IsReg() || !n.Low.IsReg() || n.Up.Size > tx.IndexMost || n.Low.Size > tx.IndexMost {
		return 0, nil, nil
	}
	if kind == 0 {
		return c.asItWas(n)
	}
	if kind == gitNote {
		if c.preference(at) == Theirs {
			return takeTheirs, nil, nil
		}
		return takeOurs, nil, nil
	}
	ours, theirs, err := c.bothSides(n)
	if err != nil {
		return 0, nil, err
	}
	if kind == gitLog {
		merged, ok := mergeLogs(ours, theirs)
		if ok {
			n.merged = merged
			return takeMerged, nil, nil
		}
		return 0, nil, nil
	}
	if !isIndex(ours) || !isIndex(theirs) {
		return 0, nil, nil
	}
	return c.reconcileIndex(n, ours, theirs)
}

// asItWas decides for the session if the project's file was rewritten with its old content: by git that switched to
// another branch and back, by an editor that saved an unchanged file, by touch.
func (c *commit) asItWas(n *node) (verdict, []Conflict, error) {
	at := store.Place{Root: n.root, Path: n.Path}
	e, _ := c.entry(at)
	if e.File == 0 || e.Mode != n.Low.Mode || e.UID != n.Low.UID || e.GID != n.Low.GID || e.Size != n.Low.Size || n.Aspects&Attributes != 0 {
		return 0, nil, nil
	}
	base, ok, err := c.base(at)
	if err != nil || !ok {
		return 0, nil, err
	}
	ours, err := tree.Read(c.layers[n.root].Low, n.Path, n.Low)
	if err != nil {
		return 0, nil, &Error{Op: "read", Path: c.abs(at), Err: err}
	}
	if !bytes.Equal(base, ours) {
		return 0, nil, nil
	}
	return takeTheirs, nil, nil
}

// bothSides reads the project's version of a file and the session's.
func (c *commit) bothSides(n *node) (ours, theirs []byte, err error) {
	for _, side := range []struct {
		t    tree.Tree
		st   tree.Stat
		data *[]byte
	}{{c.layers[n.root].Low, n.Low, &ours}, {c.layers[n.root].Up, n.Up, &theirs}} {
		if *side.data, err = tree.Read(side.t, n.Path, side.st); err != nil {
			return nil, nil, &Error{Op: "merge", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
		}
	}
	return ours, theirs, nil
}

// reconcileIndex merges two versions of git's index entry by entry. The cached state of files does not count as a
// difference.
func (c *commit) reconcileIndex(n *node, ourData, theirData []byte) (verdict, []Conflict, error) {
	fail := func(err error) (verdict, []Conflict, error) {
		return askedOfBoth, []Conflict{{Root: n.Root, Path: n.Path, Why: tx.WhyChanged, Kind: n.Kind,
			Session: version(n.Up), Project: version(n.Low), Unmerged: err}}, nil
	}
	ours, err := gitindex.Parse(ourData)
	if err != nil {
		return fail(err)
	}
	theirs, err := gitindex.Parse(theirData)
	if err != nil {
		return fail(err)
	}
	if gitindex.Same(ours, theirs) {
		return takeOurs, nil, nil
	}
	data, ok, err := c.base(store.Place{Root: n.root, Path: n.Path})
	if err != nil {
		return 0, nil, err
	}
	if !ok {
		data = c.s.heldIndex(store.Place{Root: n.root, Path: n.Path})
	}
	if data == nil {
		return fail(ErrNoBase)
	}
	base, err := gitindex.Parse(data)
	if err != nil {
		return fail(err)
	}
	switch {
	case gitindex.Same(base, theirs):
		return takeOurs, nil, nil
	case gitindex.Same(base, ours):
		return takeTheirs, nil, nil
	}
	work, known := workTree(n.Path)
	merged, clashes, err := gitindex.Merge(base, ours, theirs, gitindex.MergeOptions{
		Written: n.Low.Mtime.Nano() / 1e9,
		Touched: func(path string) bool {
			return !known || c.takes(store.Place{Root: n.root, Path: tree.JoinPath(work, path)})
		},
		Choose: func(path string) gitindex.Side {
			switch c.preference(store.Place{Root: n.root, Path: tree.JoinPath(work, path)}, store.Place{Root: n.root, Path: n.Path}) {
			case Theirs:
				return gitindex.Theirs
			case Ours:
				return gitindex.Ours
			}
			return 0
		},
	})
	if err != nil {
		return fail(err)
	}
	var list []Conflict
	for _, k := range clashes {
		list = append(list, Conflict{Root: n.Root, Path: tree.JoinPath(work, k.Path), Index: n.Path, Why: clashText(k, n.Path)})
	}
	if len(list) > 0 {
		return askedOfBoth, list, nil
	}
	n.merged = merged.Encode()
	return takeMerged, nil, nil
}

// clashText says what both sides staged.
func clashText(k gitindex.Clash, index string) string {
	what := func(id string) string {
		if id == "" {
			return "nothing"
		}
		id = hex.EncodeToString([]byte(id))
		return id[:min(len(id), 8)]
	}
	return "is staged in two ways in " + index + ": the session has " + what(k.Theirs) + ", the project has " + what(k.Ours)
}

// workTree is the directory of the files in an index, if the index's path tells it.
func workTree(index string) (dir string, ok bool) {
	dir, ok = strings.CutSuffix(index, ".git/index")
	dir = strings.TrimSuffix(dir, "/")
	if !ok || dir != "" && strings.HasSuffix(index, "/"+dir+".git/index") {
		return ".", false
	}
	if dir == "" {
		dir = "."
	}
	return dir, true
}

// takes reports whether the commit changes the object at a place.
func (c *commit) takes(at store.Place) bool {
	if c.taken == nil {
		c.taken = make(map[store.Place]bool, len(c.nodes))
		for i := range c.nodes {
			c.taken[store.Place{Root: c.nodes[i].root, Path: c.nodes[i].Path}] = true
		}
	}
	for !c.taken[at] {
		dir, _ := tree.SplitPath(at.Path)
		if dir == "." {
			return false
		}
		at.Path = dir
	}
	return true
}

// mergeLogs appends what both sides added to a log to their common part: the project's lines first. False: a side is
// not a log, or lacks lines that the other has.
func mergeLogs(ours, theirs []byte) ([]byte, bool) {
	same := 0
	for {
		end := bytes.IndexByte(ours[same:], '\n') + 1
		if end == 0 || !bytes.HasPrefix(theirs[same:], ours[same:same+end]) {
			break
		}
		same += end
	}
	a, b := ours[same:], theirs[same:]
	if !isLog(ours) || !isLog(theirs) || same == 0 && len(a) > 0 && len(b) > 0 {
		return nil, false
	}
	return append(ours[:len(ours):len(ours)], b...), true
}

// isLog reports whether all lines have git's form: two object names, who, when, and why.
func isLog(data []byte) bool {
	for line := range bytes.Lines(data) {
		id, rest, ok := bytes.Cut(line, []byte{' '})
		if !ok || len(id) < 40 || len(rest) < len(id) || line[len(line)-1] != '\n' {
			return false
		}
		for _, c := range append(id[:len(id):len(id)], rest[:len(id)]...) {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// checkIndexes refuses to commit an index without the objects that it names.
func (c *commit) checkIndexes() error {
	if len(c.left) == 0 {
		return nil
	}
	packed := false
	for name := range c.left {
		packed = packed || strings.HasPrefix(name, "pack/")
	}
	comes := map[string]bool{}
	for i := range c.nodes {
		if name, ok := gitObject(&c.nodes[i]); ok {
			comes[name] = true
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		if !n.HasUp || !n.Up.IsReg() || n.TimeOnly || c.s.gitFileAt(store.Place{Root: n.root, Path: n.Path}) != gitIndex {
			continue
		}
		x, err := c.indexOf(n, true)
		if err != nil {
			return &Error{Op: "read", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
		}
		if x == nil {
			continue // no index, or none that names objects in a way that is known
		}
		had := map[string]bool{}
		if old, err := c.indexOf(n, false); err == nil && old != nil {
			for _, e := range old.Entries {
				had[e.ID] = true
			}
		}
		for _, e := range x.Entries {
			id := hex.EncodeToString([]byte(e.ID))
			id = id[:2] + "/" + id[2:]
			if c.left[id] || packed && !had[e.ID] && !comes[id] { // it may be in that pack
				return &Error{Op: "commit", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: ErrLeftOut}
			}
		}
	}
	return nil
}

// indexOf reads an index of git: the one that the commit writes, or the project's. Nil: it is none.
func (c *commit) indexOf(n *node, after bool) (x *gitindex.Index, err error) {
	t, st, data := c.layers[n.root].Low, n.Low, []byte(nil)
	if after {
		t, st, data = c.layers[n.root].Up, n.Up, n.merged
	} else if !n.HasLow {
		return nil, nil
	}
	if !st.IsReg() || st.Size > tx.IndexMost {
		return nil, nil
	}
	if data == nil {
		if data, err = tree.Read(t, n.Path, st); err != nil {
			return nil, err
		}
	}
	if x, err = gitindex.Parse(data); err != nil {
		x = nil
	}
	return x, nil
}

// gitObject is the name of a new object of git, or of a pack of them, below the directory of objects.
func gitObject(n *node) (name string, ok bool) {
	_, name, ok = strings.Cut("/"+n.Path, "/objects/")
	ok = ok && n.Kind == Added && n.Up.IsReg() && (len(name) > 40 && name[2] == '/' || strings.HasPrefix(name, "pack/"))
	return name, ok
}

// leaveOut records which objects of git a partial commit leaves out.
func (c *commit) leaveOut(all []node) {
	left := all
	for _, n := range c.nodes {
		for left[0].root != n.root || left[0].Path != n.Path {
			c.leaveOutOne(&left[0])
			left = left[1:]
		}
		left = left[1:]
	}
	for i := range left {
		c.leaveOutOne(&left[i])
	}
}

func (c *commit) leaveOutOne(n *node) {
	if name, ok := gitObject(n); ok {
		if c.left == nil {
			c.left = map[string]bool{}
		}
		c.left[name] = true
	}
}
