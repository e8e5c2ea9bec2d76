//go:build linux

package renames

import (
	"sync"

	"golang.org/x/sys/unix"
)

// copies are copies of files that have several names in a lower layer. The overlay makes a separate copy for each name.
// But links to two of these names must be links to one file, as after cp(1) -al of a tree with links. So must two of
// these names when both were moved, each by itself or with its directory.
type copies struct {
	mu    sync.Mutex
	known map[number]madeCopy
}

// maxCopies bounds the memory for them. Further files get a copy for each name.
const maxCopies = 100_000

// A number is the inode number of a file, with the time when the file was made, because inode numbers are used again.
type number struct {
	id
	made unix.StatxTimestamp
}

func numberOf(st *unix.Statx_t) number { return number{idOf(st), st.Btime} }

// A madeCopy is a copy, with the path at which it was made.
type madeCopy struct {
	number
	dir, name string
}

// add remembers that a file was copied to a name.
func (c *copies) add(of number, s *caller, p place) {
	st, err := p.stat()
	if err != nil || numberOf(&st) == of {
		return
	}
	dir, err := s.nameOf(p.dir)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[number]madeCopy)
	}
	if len(c.known) < maxCopies {
		c.known[of] = madeCopy{numberOf(&st), dir, p.name}
	}
}

// link makes a name a link to the copy of a file, unless somebody has written to the copy: then the names are of
// different files. It looks the copy up in the caller's root, with everything that is hidden or read-only there.
func (c *copies) link(of *unix.Statx_t, s *caller, to place) bool {
	c.mu.Lock()
	made, ok := c.known[numberOf(of)]
	c.mu.Unlock()
	if !ok {
		return false
	}
	dir, err := open(s.root, made.dir, inRoot|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false
	}
	defer dir.Close()
	p := place{dir, made.name}
	isCopy := func(p place) bool {
		st, err := p.stat()
		return err == nil && numberOf(&st) == made.number && unwritten(&st, of)
	}
	if !isCopy(p) || linkat(p, to) != nil {
		return false
	}
	if isCopy(to) {
		return true
	}
	_ = to.unlink() // somebody has replaced the copy meanwhile
	return false
}

// unwritten reports whether a copy still equals the file.
func unwritten(a, b *unix.Statx_t) bool {
	return a.Mode == b.Mode && a.Uid == b.Uid && a.Gid == b.Gid && a.Size == b.Size && a.Mtime == b.Mtime
}

// unite makes the name that is about to be moved a link to the copy of its file, if another name was linked or moved
// before. Where that fails, the names are of different files.
func (m *move) unite(before *unix.Statx_t, s *caller, c *copies) {
	beside := place{m.from.dir, temporary()}
	if !c.link(before, s, beside) {
		return
	}
	if file, ok := m.hold(before); ok {
		if known, err := m.replace(file, &beside); err == nil {
			_ = known.unlink()
		}
		file.Close()
	}
	_ = beside.unlink()
}
