package gitindex

import (
	"encoding/binary"
	"io"
	"strings"

	"github.com/nsrun/nsrun/internal/githash"
)

// Check returns an error unless all entries of an index of so many bytes are paths in the work tree that git takes from
// users. Git believes its index: if that has "../x" or ".git/hooks/update", git checkout writes there. sha256 says that
// the repository has such names of objects.
func Check(index io.ReaderAt, size int64, sha256 bool) error {
	idSize := githash.SHA1Size
	if sha256 {
		idSize = githash.SHA256Size
	}
	w := &walk{src: index, end: max(size-int64(idSize), 0), room: make([]byte, min(max(size, entryMost), 64<<10)), named: true}
	version, n, err := w.header()
	if err != nil {
		return err
	}
	var starts []int64
	name, unnamed := make([]byte, 0, pathMost), false
	for range n {
		at := w.pos()
		mode, err := w.entry(idSize, version == 4, &name)
		if err != nil {
			return err
		}
		if w.kept > 0 {
			at = -1 // a part of the name is in the entry before: git cannot begin here
		}
		starts = append(starts, at)
		path := name
		if k := len(path) - 1; mode == modeDir && k > 0 && path[k] == '/' {
			path = path[:k]
		}
		if unnamed = unnamed || len(name) == 0; len(name) > 0 && !isPath(path) {
			return damaged("no path of a file: %q", name)
		}
	}
	if err := w.endsHere(size, idSize); err != nil {
		return err
	}
	split, err := w.blocks(starts)
	if err == nil && unnamed && !split {
		err = damaged("an entry has no name")
	}
	return err
}

// Two extensions have git read a large index in several places at once: EOIE says where the entries end, and IEOT where
// blocks of them begin. So both must agree with what Check has read.

// endsHere checks EOIE, which git looks for at the end of the file.
func (w *walk) endsHere(size int64, idSize int) error {
	var p [12]byte
	at := size - int64(len(p)+2*idSize) // before the hash in it, and that of the file
	if at < w.pos() {
		return nil
	}
	if _, err := w.src.ReadAt(p[:], at); err != nil {
		return err
	}
	if string(p[:4]) == "EOIE" && int64(binary.BigEndian.Uint32(p[8:])) != w.pos() {
		return damaged("its entries end elsewhere")
	}
	return nil
}

// blocks checks IEOT, and reports whether the index is split. starts are where the entries begin.
func (w *walk) blocks(starts []int64) (split bool, err error) {
	for w.left() > 0 {
		p, err := w.take(8)
		if err != nil {
			return false, err
		}
		name, size := string(p[:4]), int64(binary.BigEndian.Uint32(p[4:]))
		if size > w.left() {
			return false, damaged("an extension is cut short")
		}
		split = split || name == "link"
		if name == "IEOT" {
			if _, err := w.take(4); err != nil {
				return false, err
			}
			n := 0
			for size -= 4; size >= 8; size -= 8 {
				if p, err = w.take(8); err != nil {
					return false, err
				}
				at, count := int64(binary.BigEndian.Uint32(p)), int(binary.BigEndian.Uint32(p[4:]))
				if n >= len(starts) || starts[n] != at || count > len(starts)-n {
					return false, damaged("its blocks are elsewhere")
				}
				n += count
			}
			if n != len(starts) {
				return false, damaged("its blocks are not complete")
			}
		}
		if err := w.skip(size); err != nil {
			return false, err
		}
	}
	return split, nil
}

// isPath reports whether git takes a path from users: not one that leads out of the work tree, or to its own directory.
// Some file systems take other names for ".git", which git refuses too.
func isPath[T string | []byte](path T) bool {
	for at := 0; ; at++ {
		from := at
		for at < len(path) && path[at] != '/' {
			at++
		}
		name := path[from:at]
		if len(name) == 0 {
			return false
		}
		if c := name[0]; c == '.' || c == 'g' || c == 'G' {
			plain := strings.TrimRight(string(name), ". ")
			if string(name) == "." || string(name) == ".." || strings.EqualFold(plain, ".git") || strings.EqualFold(plain, "git~1") {
				return false
			}
		}
		if at == len(path) {
			return true
		}
	}
}
