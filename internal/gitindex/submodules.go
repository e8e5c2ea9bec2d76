package gitindex

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"

	"github.com/nsrun/nsrun/internal/githash"
)

// Submodules are the paths in an index of so many bytes that are those of submodules, at a small part of what Parse
// costs: the checksum is not looked at, nothing is kept of other entries, and little of the file at a time. shared is
// the part of the name of another file behind "sharedindex." that an index which is split has the rest of its entries
// in.
//
// Nothing in an index says which hash the names of objects have. What can be read in both ways has the paths of both.
func Submodules(index io.ReaderAt, size int64) (paths []string, shared string, err error) {
	err = errDamaged
	room := make([]byte, min(max(size, entryMost), 64<<10))
	for _, idSize := range [...]int{githash.SHA1Size, githash.SHA256Size} {
		p, s, e := submodules(&walk{src: index, end: max(size-int64(idSize), 0), room: room}, idSize)
		if e == nil {
			paths, shared, err = append(paths, p...), s, nil
		} else if idSize == githash.SHA1Size {
			err = e
		}
	}
	return paths, shared, err
}

var errSplitSub = errors.New("it is split, and a file became a submodule")

// entryMost is more than any entry has, in bytes.
const entryMost = 8 << 10

// A walk is what is left of an index. What it returns is good until the next call.
type walk struct {
	src  io.ReaderAt
	at   int64  // to where src was read
	end  int64  // of what is to be read
	room []byte // at least entryMost
	data []byte // in room: read, and not gone over
	err  error  // of reading

	named bool // all names are needed
	kept  int  // how many bytes of its name the last entry has from the one before
}

// fill ensures that the next n bytes, at most entryMost, or everything that is left, are in data.
func (w *walk) fill(n int) {
	if len(w.data) >= n || w.at == w.end || w.err != nil {
		return
	}
	have := copy(w.room, w.data)
	more := int(min(int64(len(w.room)-have), w.end-w.at))
	if k, err := w.src.ReadAt(w.room[have:have+more], w.at); k < more {
		w.err = cmp.Or(err, io.ErrUnexpectedEOF)
		if w.err == io.EOF {
			w.err = damaged("it is cut short")
		}
		more = k
	}
	w.data, w.at = w.room[:have+more], w.at+int64(more)
}

// take skips the next n bytes of data.
func (w *walk) take(n int) ([]byte, error) {
	w.fill(n)
	if n > len(w.data) {
		return nil, w.short()
	}
	p := w.data[:n]
	w.data = w.data[n:]
	return p, nil
}

// short returns why there is no more.
func (w *walk) short() error { return cmp.Or(w.err, damaged("it is cut short")) }

// pos returns how many bytes were gone over.
func (w *walk) pos() int64 { return w.at - int64(len(w.data)) }

// left returns how many bytes are left.
func (w *walk) left() int64 { return int64(len(w.data)) + w.end - w.at }

// skip skips the next n bytes without reading them.
func (w *walk) skip(n int64) error {
	if n > w.left() {
		return w.short()
	}
	in := min(n, int64(len(w.data)))
	w.data, w.at = w.data[in:], w.at+n-in
	return nil
}

func submodules(w *walk, idSize int) (paths []string, shared string, err error) {
	version, n, err := w.header()
	if err != nil {
		return nil, "", err
	}
	name := make([]byte, 0, pathMost)
	for range n {
		mode, err := w.entry(idSize, version == 4, &name)
		if err != nil {
			return nil, "", err
		}
		if mode != modeSub {
			continue
		}
		if len(name) == 0 {
			return nil, "", errSplitSub // in the place of an entry of the other file
		}
		if k := len(paths); k == 0 || paths[k-1] != string(name) {
			paths = append(paths, string(name))
		}
	}
	shared, err = w.extensions(idSize)
	return paths, shared, err
}

// header reads the version and the number of entries.
func (w *walk) header() (version, n uint32, err error) {
	head, err := w.take(12)
	if err != nil {
		return 0, 0, err
	}
	if string(head[:4]) != Magic {
		return 0, 0, damaged("it has no header of an index")
	}
	version, n = binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return 0, 0, errors.New("its version is not known")
	}
	return version, n, nil
}

// entry reads one: name is the path of the one before, and becomes that of this one, where that is needed.
func (w *walk) entry(idSize int, packed bool, name *[]byte) (mode uint32, err error) {
	if len(w.data) < entryMost {
		w.fill(entryMost)
	}
	p, at := w.data, statSize+idSize+2
	if len(p) < at {
		return 0, w.short()
	}
	mode = binary.BigEndian.Uint32(p[modeAt:])
	flags := binary.BigEndian.Uint16(p[statSize+idSize:])
	if flags&flagExtended != 0 {
		at += 2
	}
	if len(p) < at {
		return 0, w.short()
	}
	// Most are read as git reads them: the length says where a name ends, and which name it is does not matter.
	if size := int(flags & flagLength); !packed && !w.named && mode != modeSub && size < flagLength {
		end := at + size
		next := (end + 8) &^ 7
		if next > len(p) {
			return 0, w.short()
		}
		if p[end] != 0 {
			return 0, damaged("a name has another length")
		}
		w.data = p[next:]
		return mode, nil
	}
	keep := 0
	if packed {
		strip, n := varint(p[at:])
		if n == 0 || strip > uint64(len(*name)) {
			return 0, damaged("a name is cut short")
		}
		at += n
		keep = len(*name) - int(strip)
	}
	w.kept = keep
	text := p[at:min(len(p), at+pathMost+1-keep)]
	end := bytes.IndexByte(text, 0)
	if end < 0 {
		return 0, damaged("a name has no end")
	}
	if packed || w.named || mode == modeSub {
		*name = append((*name)[:keep], text[:end]...)
	}
	if int(flags&flagLength) != min(keep+end, flagLength) {
		return 0, damaged("a name has another length")
	}
	if at += end + 1; !packed {
		at = (at + 7) &^ 7
	}
	if at > len(p) {
		return 0, w.short()
	}
	w.data = p[at:]
	return mode, nil
}

// extensions reads what stands behind the entries.
func (w *walk) extensions(idSize int) (shared string, err error) {
	for w.left() > 0 {
		p, err := w.take(8)
		if err != nil {
			return "", err
		}
		size, link := int64(binary.BigEndian.Uint32(p[4:])), string(p[:4]) == "link"
		if size > w.left() || link && size < int64(idSize) {
			return "", damaged("an extension is cut short")
		}
		if link {
			id, err := w.take(idSize)
			if err != nil {
				return "", err
			}
			shared, size = hex.EncodeToString(id), size-int64(idSize)
		}
		if err := w.skip(size); err != nil {
			return "", err
		}
	}
	return shared, nil
}
