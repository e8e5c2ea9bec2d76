package gitindex

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/nsrun/nsrun/internal/githash"
)

// Submodules are the paths in an index that are those of submodules, at a small part of what Parse costs: the
// checksum is not looked at, and nothing is kept of other entries. shared is the part of the name of another file
// behind "sharedindex." that an index which is split has the rest of its entries in.
//
// Nothing in an index says which hash the names of objects have. What can be read in both ways has the paths of both.
func Submodules(data []byte) (paths []string, shared string, err error) {
	err = errDamaged
	for _, idSize := range [...]int{githash.SHA1Size, githash.SHA256Size} {
		p, s, e := submodules(data, idSize)
		if e == nil {
			paths, shared, err = append(paths, p...), s, nil
		} else if idSize == githash.SHA1Size {
			err = e
		}
	}
	return paths, shared, err
}

var errSplitSub = errors.New("it is split, and a file became a submodule")

// A walk is what is left of an index.
type walk []byte

// take goes on behind the next n bytes.
func (w *walk) take(n int) ([]byte, error) {
	p := *w
	if n > len(p) {
		return nil, damaged("it is cut short")
	}
	*w = p[n:]
	return p[:n], nil
}

func submodules(data []byte, idSize int) (paths []string, shared string, err error) {
	w := walk(data[:max(len(data)-idSize, 0)])
	head, err := w.take(12)
	if err != nil {
		return nil, "", err
	}
	if string(head[:4]) != Magic {
		return nil, "", damaged("it does not begin as an index")
	}
	version, n := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return nil, "", errors.New("its version is not known")
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

// entry reads one: name is the path of the one before, and becomes that of this one.
func (w *walk) entry(idSize int, packed bool, name *[]byte) (mode uint32, err error) {
	at := statSize + idSize + 2
	p, err := w.take(at)
	if err != nil {
		return 0, err
	}
	mode = binary.BigEndian.Uint32(p[modeAt:])
	flags := binary.BigEndian.Uint16(p[statSize+idSize:])
	if flags&flagExtended != 0 {
		at += 2
		if _, err := w.take(2); err != nil {
			return 0, err
		}
	}
	keep := 0
	if packed {
		strip, n := varint(*w)
		if n == 0 || strip > uint64(len(*name)) {
			return 0, damaged("a name is cut short")
		}
		if _, err := w.take(n); err != nil {
			return 0, err
		}
		keep = len(*name) - int(strip)
	}
	end := bytes.IndexByte(*w, 0)
	if end < 0 || keep+end > pathMost {
		return 0, damaged("a name has no end")
	}
	text, _ := w.take(end + 1)
	*name = append((*name)[:keep], text[:end]...)
	if int(flags&flagLength) != min(len(*name), flagLength) {
		return 0, damaged("a name has another length")
	}
	if at += end + 1; !packed && at%8 != 0 {
		_, err = w.take(8 - at%8)
	}
	return mode, err
}

// extensions reads what stands behind the entries.
func (w *walk) extensions(idSize int) (shared string, err error) {
	for len(*w) > 0 {
		p, err := w.take(8)
		if err != nil {
			return "", err
		}
		size := binary.BigEndian.Uint32(p[4:])
		if uint64(size) > uint64(len(*w)) {
			return "", damaged("an extension is cut short")
		}
		body, _ := w.take(int(size))
		if string(p[:4]) != "link" {
			continue
		}
		if len(body) < idSize {
			return "", damaged("an extension is cut short")
		}
		shared = hex.EncodeToString(body[:idSize])
	}
	return shared, nil
}
