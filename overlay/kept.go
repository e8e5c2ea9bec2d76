//go:build linux

package overlay

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// When a command has ended, the session keeps the project's versions of the text files that it changed: without them, a
// file that is changed in the project later could not be merged with the session's version.
const (
	baseName  = "base"
	indexName = "index"

	// baseMost limits what is kept, in bytes: of a file, and of a session.
	baseMost    = 1 << 20
	baseMostAll = 64 << 20
)

// baseEntry is a line of the index.
type baseEntry struct {
	Root int        `json:"root"`
	Path store.Text `json:"path"`
	File int        `json:"file,omitempty"` // zero: it was there, and its content was not kept
	Dir  uint64     `json:"dir,omitempty"`  // the inode number of a directory in which something was modified; nothing else is set
	Size int64      `json:"size,omitempty"`

	// Mode, with the type, and the owner. Mode zero: not known.
	Mode uint32 `json:"mode,omitempty"`
	UID  uint32 `json:"uid,omitempty"`
	GID  uint32 `json:"gid,omitempty"`
}

// kept is the open directory of kept versions.
type kept struct {
	dir, index *tree.Handle
	known      map[store.Place]baseEntry
	dirs       map[store.Place]uint64 // inode numbers
	sides      []openSides            // that were opened
	arrived    *arrivals
	settled    map[store.Place]int64 // the ctimes that nsrun caused in the project; nil: see caused
	next       int
	total      int64
}

func (b *kept) close() {
	b.dir.Close()
	b.index.Close()
	for i := range b.sides {
		b.sides[i].close()
	}
}

// read reads the index. Lines that are cut off do not count.
func (b *kept) read(roots int) error {
	data, err := b.dir.ReadFile(indexName, store.MetaMost)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		var e baseEntry
		if store.StrictJSON(line, &e) != nil || store.CheckPlace(e.Root, string(e.Path), roots) != nil || e.File < 0 {
			continue
		}
		if e.Dir != 0 {
			b.dirs[store.Place{Root: e.Root, Path: string(e.Path)}] = e.Dir
			continue
		}
		b.next = max(b.next, e.File+1)
		b.total += e.Size
		b.known[store.Place{Root: e.Root, Path: string(e.Path)}] = e
	}
	return nil
}

// known reads which of the modified files and their directories the project had when the session's commands had ended.
// Nil: this was not recorded.
func (s *Session) known() (files map[store.Place]baseEntry, dirs map[store.Place]uint64, err error) {
	d, err := s.dir.OpenDir(baseName)
	if err == unix.ENOENT {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	b := kept{dir: d, known: map[store.Place]baseEntry{}, dirs: map[store.Place]uint64{}}
	defer b.close()
	return b.known, b.dirs, b.read(len(s.roots))
}

// baseOf returns the version of a file that the project had, and whether it was kept.
func (s *Session) baseOf(at store.Place) ([]byte, bool, error) {
	known, _, err := s.known()
	if err != nil {
		return nil, false, err
	}
	return s.readBase(known[at])
}

func (s *Session) readBase(e baseEntry) ([]byte, bool, error) {
	if e.File == 0 {
		return nil, false, nil
	}
	data, err := s.dir.ReadFile(baseName+"/"+strconv.Itoa(e.File), tx.IndexMost)
	if err == nil && int64(len(data)) != e.Size {
		err = ErrMoved
	}
	return data, err == nil, err
}
