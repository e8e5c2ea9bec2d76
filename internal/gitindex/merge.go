package gitindex

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/githash"
)

// ErrSplit is the error for an index that is divided into several files: it is neither compared nor merged.
var ErrSplit = errors.New("it is split (see core.splitIndex)")

var (
	errHashes = errors.New("its objects are named by different hashes")
	errSparse = errors.New("it is sparse in different ways")
)

// Same reports whether the same content is staged in both.
func Same(a, b *Index) bool { return comparable(a, b) == nil && equal(a.Entries, b.Entries) }

// comparable returns why two indexes cannot be compared by their entries, or nil.
func comparable(a, b *Index) error {
	switch {
	case a.Split || b.Split:
		return ErrSplit
	case a.idSize != b.idSize && a.idSize != 0 && b.idSize != 0:
		return errHashes
	}
	return nil
}

// equal compares entries without the data of stat(2).
func equal(a, b []Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.ID != y.ID || x.Mode != y.Mode || x.Stage != y.Stage || x.Flags != y.Flags || x.Path != y.Path {
			return false
		}
	}
	return true
}

// A Clash is a path that both sides staged differently. An empty object name stands for no entry at that path; in an
// unfinished merge, the first side is returned.
type Clash struct {
	Path         string
	Ours, Theirs string
}

// A Side is one of the two sides of a merge. The zero Side is neither.
type Side uint8

const (
	Ours Side = iota + 1
	Theirs
)

// MergeOptions say how to merge. The zero value decides no Clash, and has git look at all files again.
type MergeOptions struct {
	// Choose decides about paths that both sides staged differently. Nil, or zero: the path is a Clash.
	Choose func(path string) Side

	// Written is when our index was written, in seconds since 1970: the data of stat(2) of files older than that is
	// kept, except of those that are Touched. Zero: none is kept.
	Written int64

	// Touched reports whether there is another file at a path now. Nil: never.
	Touched func(path string) bool
}

// Merge merges two indexes with the common ancestor base, path by path: what either side staged is staged in the
// result. What both staged differently is a Clash. With any Clash, merged is nil.
func Merge(base, ours, theirs *Index, o MergeOptions) (merged *Index, clashes []Clash, err error) {
	for _, pair := range [...][2]*Index{{base, ours}, {base, theirs}, {ours, theirs}} {
		if err := comparable(pair[0], pair[1]); err != nil {
			return nil, nil, err
		}
	}
	if ours.Sparse || theirs.Sparse {
		if !sameDirs(base, ours) || !sameDirs(ours, theirs) {
			return nil, nil, errSparse
		}
	}
	m := &Index{Version: ours.Version, Sparse: ours.Sparse, idSize: max(ours.idSize, theirs.idSize)}
	b, a, t := base.Entries, ours.Entries, theirs.Entries
	for len(b) > 0 || len(a) > 0 || len(t) > 0 {
		path := least(b, a, t)
		var was, mine, yours []Entry
		was, b = take(b, path)
		mine, a = take(a, path)
		yours, t = take(t, path)
		side := Side(0)
		switch {
		case equal(mine, yours), equal(was, yours):
			side = Ours
		case equal(was, mine):
			side = Theirs
		case o.Choose != nil:
			side = o.Choose(path)
		}
		use := mine
		switch side {
		case Ours:
		case Theirs:
			use = yours
		default:
			clashes = append(clashes, Clash{path, idOf(mine), idOf(yours)})
		}
		for _, e := range use {
			if side != Ours || !e.settled(o.Written) || o.Touched != nil && o.Touched(path) {
				e.stat = statData{}
			}
			m.Entries = append(m.Entries, e)
		}
	}
	if len(clashes) == 0 {
		clashes = m.nested(ours)
	}
	if len(clashes) > 0 {
		return nil, clashes, nil
	}
	return m, nil, nil
}

// settled reports whether the file's time is before that of the index. Otherwise git reads the file, because it may
// have been written again in the same moment. The merged index has another time, so that git could not know.
func (e *Entry) settled(written int64) bool { return int64(e.stat[statMtime]) < written }

// least is the path that comes first.
func least(lists ...[]Entry) string {
	path, found := "", false
	for _, l := range lists {
		if len(l) > 0 && (!found || l[0].Path < path) {
			path, found = l[0].Path, true
		}
	}
	return path
}

// take splits a list into the entries of a path, with which it may begin, and the rest.
func take(list []Entry, path string) (of, rest []Entry) {
	n := 0
	for n < len(list) && list[n].Path == path {
		n++
	}
	return list[:n], list[n:]
}

func idOf(list []Entry) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].ID
}

// nested finds files in places where a directory is needed: each is from one side only.
func (x *Index) nested(ours *Index) (list []Clash) {
	var above []*Entry // those before an entry whose names its path begins with: in order, they are all there are
	told := map[*Entry]bool{}
	for i := range x.Entries {
		e := &x.Entries[i]
		path := e.name()
		for len(above) > 0 && !strings.HasPrefix(path, above[len(above)-1].name()) {
			above = above[:len(above)-1]
		}
		for _, file := range slices.Backward(above) {
			dir := file.name()
			if len(path) == len(dir) || path[len(dir)] != '/' || told[file] || file.Stage != 0 || e.Stage != 0 {
				continue
			}
			told[file] = true
			c := Clash{Path: dir, Theirs: file.ID}
			if has(ours.Entries, dir) {
				c.Ours, c.Theirs = file.ID, ""
			}
			list = append(list, c)
		}
		above = append(above, e)
	}
	return list
}

// name is the path without the slash at the end of a sparse directory.
func (e *Entry) name() string { return strings.TrimSuffix(e.Path, "/") }

// has reports whether a path is among entries, which are in order.
func has(list []Entry, path string) bool {
	_, ok := slices.BinarySearchFunc(list, path, func(e Entry, path string) int { return strings.Compare(e.Path, path) })
	return ok
}

// sameDirs reports whether both leave out the same directories of the work tree.
func sameDirs(a, b *Index) bool {
	dirs := func(x *Index) (list []Entry) {
		for _, e := range x.Entries {
			if e.Mode == modeDir {
				list = append(list, e)
			}
		}
		return list
	}
	return equal(dirs(a), dirs(b))
}

// Digest identifies what is staged: it is equal for two indexes only if they are the Same. Empty: the index is Split.
func (x *Index) Digest() string {
	if x.Split {
		return ""
	}
	h := githash.NewSHA256()
	var head [8]byte
	for i := range x.Entries {
		e := &x.Entries[i]
		binary.BigEndian.PutUint32(head[:], e.Mode)
		head[4], head[5] = e.Stage, byte(e.Flags)
		binary.BigEndian.PutUint16(head[6:], uint16(len(e.Path)))
		_, _ = h.Write(head[:])
		_, _ = h.Write([]byte(e.ID))
		_, _ = h.Write([]byte(e.Path))
	}
	return hex.EncodeToString(h.Sum())
}
