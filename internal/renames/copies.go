//go:build linux

package renames

import (
	"sync"

	"golang.org/x/sys/unix"
)

// copies are those of files that had several names in a lower layer. The overlay makes another copy for each name, and keeps
// nothing that connects them. What is linked by one of these names has to be the same file as what is linked by another, as after
// cp(1) -al of a tree with links.
type copies struct {
	mu    sync.Mutex
	known map[number]madeCopy
}

// maxCopies bounds the memory for them. Files beyond it get a copy for each name.
const maxCopies = 100_000

// A number is a file's, with the time when it was made: numbers are used again.
type number struct {
	id
	made unix.StatxTimestamp
}

func numberOf(st *unix.Statx_t) number { return number{idOf(st), st.Btime} }

// A madeCopy is where a copy was.
type madeCopy struct {
	number
	dir, name string
}

// add remembers that a file was copied to a name.
func (c *copies) add(of *unix.Statx_t, s *caller, p place) {
	st, err := p.stat()
	if err != nil {
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
		c.known[numberOf(of)] = madeCopy{numberOf(&st), dir, p.name}
	}
}

// link makes a name a link to the copy of a file, as long as nobody has written to that: from then on the names are of different
// files. The caller's root leads to the copy, with what is hidden and read-only there.
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

// unwritten reports whether a copy is as the file is.
func unwritten(a, b *unix.Statx_t) bool {
	return a.Mode == b.Mode && a.Uid == b.Uid && a.Gid == b.Gid && a.Size == b.Size && a.Mtime == b.Mtime
}
