// Package gitindex reads, compares and merges the index of git (the "staging area"), in the format of
// gitformat-index(5): versions 2, 3 and 4, with SHA-1 or SHA-256. Its input may be hostile: the package checks it
// completely before it uses any of it. It imports internal/githash only, and does not open files or run git.
//
// Besides the staged entries, an index holds what git found when it last looked at the files (times, sizes, inode
// numbers), and extensions that are caches too. They only save git work: Same and Merge ignore them.
package gitindex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/githash"
)

// Magic is the beginning of every index.
const Magic = "DIRC"

// Bounds of what Parse reads. A path of the file system is no longer either.
const (
	pathMost = 4096
	pathsPer = 8 // bytes of all paths, for each byte of the file: names are compressed in version 4
)

// An Entry is one path in the index. The zero Entry is invalid.
type Entry struct {
	Path  string // relative to the work tree
	ID    string // the object's name, binary
	Mode  uint32 // a file, symbolic link, submodule, or sparse directory
	Stage uint8  // zero: merged; 1 to 3: a side of a merge that is not finished
	Flags Flags

	stat statData
	at   int // in the file
}

// Flags are what a user told git about an entry.
type Flags uint8

const (
	AssumeValid Flags = 1 << iota
	SkipWorktree
	IntentToAdd
)

// The data of stat(2) that git keeps, as it is in the file: ctime, mtime, device and inode number, then, after the
// mode, user, group and size. All zero: git has to look at the file again.
type statData [9]uint32

const (
	statMtime = 2 // of the seconds, in that
	statOwner = 6
)

// An Index is the parsed content of an index. The zero Index has no entries.
type Index struct {
	Version int // 2 to 4
	Entries []Entry

	// Split says that the index has only the differences from another file; then there are no Entries. Sparse says
	// that entries may be directories.
	Split, Sparse bool

	idSize int // bytes of an object's name: 20 or 32
}

var errDamaged = errors.New("it is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
}

// Parse reads an index. Unknown parts are an error, and so is anything that git would not write.
func Parse(data []byte) (*Index, error) {
	if len(data) < 12 || string(data[:4]) != Magic {
		return nil, damaged("it has no header of an index")
	}
	var first error
	for _, size := range [...]int{githash.SHA1Size, githash.SHA256Size} {
		x, err := parse(data, size)
		if err == nil {
			return x, nil
		}
		if first == nil || errors.Is(first, sumError{}) {
			first = err
		}
	}
	return nil, first
}

// A sumError is an errDamaged.
type sumError struct{}

func (sumError) Error() string { return errDamaged.Error() + ": its checksum is wrong" }
func (sumError) Unwrap() error { return errDamaged }

func parse(data []byte, idSize int) (*Index, error) {
	if len(data) < 12+idSize {
		return nil, damaged("it is too short")
	}
	body, sum := data[:len(data)-idSize], data[len(data)-idSize:]
	// Zeros stand for no checksum (index.skipHash).
	if !bytes.Equal(sum, make([]byte, idSize)) && !bytes.Equal(sum, checksum(body, idSize)) {
		return nil, sumError{}
	}
	x := &Index{Version: int(binary.BigEndian.Uint32(body[4:])), idSize: idSize}
	if x.Version < 2 || x.Version > 4 {
		return nil, fmt.Errorf("version %d is not known", x.Version)
	}
	n := int(binary.BigEndian.Uint32(body[8:]))
	rest := body[12:]
	if n > len(rest)/(statSize+idSize+2) {
		return nil, damaged("%d entries", n)
	}
	x.Entries = make([]Entry, 0, n)
	paths, unnamed := 0, false
	last := &Entry{}
	for range n {
		e, used, err := x.entry(rest, last.Path)
		if err != nil {
			return nil, err
		}
		if paths += len(e.Path); paths > pathsPer*len(data) {
			return nil, damaged("its names are too long")
		}
		// Of an index that is split entries have no name that take the place of those in the other file.
		unnamed = unnamed || e.Path == ""
		if len(x.Entries) > 0 && !before(last, &e) && e.Path != "" {
			return nil, damaged("its entries are not in order")
		}
		e.at = len(body) - len(rest)
		rest = rest[used:]
		x.Entries = append(x.Entries, e)
		last = &x.Entries[len(x.Entries)-1]
	}
	if err := x.extensions(rest); err != nil {
		return nil, err
	}
	if x.Split {
		x.Entries = nil
	} else if unnamed {
		return nil, damaged("an entry has no name")
	}
	for i := range x.Entries {
		if err := x.check(&x.Entries[i]); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// before is the order of entries.
func before(a, b *Entry) bool {
	if a.Path != b.Path {
		return a.Path < b.Path
	}
	return a.Stage < b.Stage
}

const (
	statSize = 40 // with the mode
	modeAt   = 24 // in that

	flagValid    = 0x8000
	flagExtended = 0x4000
	flagStage    = 0x3000
	flagLength   = 0x0fff

	extSkip = 0x4000
	extAdd  = 0x2000
)

// entry reads the entry that p begins with; last is the path before.
func (x *Index) entry(p []byte, last string) (e Entry, used int, err error) {
	at := statSize + x.idSize + 2
	if len(p) < at+1 {
		return e, 0, damaged("an entry is cut short")
	}
	k := 0
	for i := 0; i < statSize; i += 4 {
		v := binary.BigEndian.Uint32(p[i:])
		if i == modeAt {
			e.Mode = v
			continue
		}
		e.stat[k] = v
		k++
	}
	e.ID = string(p[statSize : statSize+x.idSize])
	flags := binary.BigEndian.Uint16(p[statSize+x.idSize:])
	e.Stage = uint8(flags & flagStage >> 12)
	if flags&flagValid != 0 {
		e.Flags |= AssumeValid
	}
	if flags&flagExtended != 0 {
		if x.Version < 3 || len(p) < at+3 {
			return e, 0, damaged("an entry has flags of another version")
		}
		ext := binary.BigEndian.Uint16(p[at:])
		at += 2
		if ext&^(extSkip|extAdd) != 0 {
			return e, 0, fmt.Errorf("an entry has flags that are not known: %#x", ext)
		}
		if ext&extSkip != 0 {
			e.Flags |= SkipWorktree
		}
		if ext&extAdd != 0 {
			e.Flags |= IntentToAdd
		}
	}
	prefix := ""
	if x.Version == 4 {
		strip, n := varint(p[at:])
		if n == 0 || strip > uint64(len(last)) {
			return e, 0, damaged("a name is cut short")
		}
		at += n
		prefix = last[:len(last)-int(strip)]
	}
	end := bytes.IndexByte(p[at:], 0)
	if end < 0 || len(prefix)+end > pathMost {
		return e, 0, damaged("a name has no end")
	}
	e.Path = prefix + string(p[at:at+end])
	if int(flags&flagLength) != min(len(e.Path), flagLength) {
		return e, 0, damaged("a name has another length")
	}
	at += end + 1
	if x.Version < 4 {
		for ; at%8 != 0; at++ {
			if at >= len(p) || p[at] != 0 {
				return e, 0, damaged("an entry is not filled up with zeros")
			}
		}
	}
	return e, at, nil
}

// varint reads a number in the form of git's packs. n is zero if there is none, or if it is too large for a path.
func varint(p []byte) (v uint64, n int) {
	for n < len(p) && n < 3 {
		c := p[n]
		v |= uint64(c & 0x7f)
		n++
		if c&0x80 == 0 {
			return v, n
		}
		v = (v + 1) << 7
	}
	return 0, 0
}

// extensions checks what follows the entries.
func (x *Index) extensions(p []byte) error {
	for len(p) > 0 {
		if len(p) < 8 {
			return damaged("an extension is cut short")
		}
		name, size := string(p[:4]), binary.BigEndian.Uint32(p[4:])
		if uint64(size) > uint64(len(p)-8) {
			return damaged("an extension is cut short")
		}
		p = p[8+size:]
		switch {
		case name == "link":
			x.Split = true
		case name == "sdir":
			x.Sparse = true
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("it has an extension that is not known: %q", name)
		}
	}
	return nil
}

const (
	modeDir  = 0o040000
	modeLink = 0o120000
	modeSub  = 0o160000
)

// check refuses entries that git would not put into an index.
func (x *Index) check(e *Entry) error {
	path := e.Path
	switch e.Mode {
	case 0o100644, 0o100755, 0o100664, modeLink, modeSub:
	case modeDir:
		var ok bool
		if path, ok = strings.CutSuffix(path, "/"); !ok || !x.Sparse || e.Stage != 0 {
			return damaged("a directory is staged: %q", e.Path)
		}
	default:
		return damaged("mode %o", e.Mode)
	}
	if !isPath(path) {
		return damaged("no path of a file: %q", e.Path)
	}
	return nil
}
