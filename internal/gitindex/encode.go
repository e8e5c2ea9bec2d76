package gitindex

import (
	"encoding/binary"
	"slices"

	"github.com/nsrun/nsrun/internal/githash"
)

// Encode returns the index as a file, with a checksum and without extensions, except the one that says that directories
// may be entries. It returns nil for a Split index.
func (x *Index) Encode() []byte {
	if x.Split {
		return nil
	}
	version := max(x.Version, 2)
	if version == 2 && slices.ContainsFunc(x.Entries, func(e Entry) bool { return e.Flags&^AssumeValid != 0 }) {
		version = 3
	}
	idSize := x.idSize
	if idSize == 0 {
		idSize = githash.SHA1Size
	}
	out := append([]byte(Magic), 0, 0, 0, byte(version))
	out = binary.BigEndian.AppendUint32(out, uint32(len(x.Entries)))
	last := ""
	for i := range x.Entries {
		e := &x.Entries[i]
		start := len(out)
		for k, v := range e.stat {
			if k == modeAt/4 {
				out = binary.BigEndian.AppendUint32(out, e.Mode)
			}
			out = binary.BigEndian.AppendUint32(out, v)
		}
		out = append(out, e.ID...)
		flags, ext := uint16(min(len(e.Path), flagLength))|uint16(e.Stage)<<12, uint16(0)
		if e.Flags&AssumeValid != 0 {
			flags |= flagValid
		}
		if e.Flags&SkipWorktree != 0 {
			ext |= extSkip
		}
		if e.Flags&IntentToAdd != 0 {
			ext |= extAdd
		}
		if ext != 0 {
			flags |= flagExtended
		}
		out = binary.BigEndian.AppendUint16(out, flags)
		if ext != 0 {
			out = binary.BigEndian.AppendUint16(out, ext)
		}
		if version == 4 {
			same := 0
			for same < min(len(last), len(e.Path)) && last[same] == e.Path[same] {
				same++
			}
			out = appendVarint(out, uint64(len(last)-same))
			out = append(append(out, e.Path[same:]...), 0)
			last = e.Path
			continue
		}
		out = append(append(out, e.Path...), 0)
		for (len(out)-start)%8 != 0 {
			out = append(out, 0)
		}
	}
	if x.Sparse {
		out = append(out, "sdir\x00\x00\x00\x00"...)
	}
	return append(out, checksum(out, idSize)...)
}

func appendVarint(out []byte, v uint64) []byte {
	var buf [10]byte
	at := len(buf) - 1
	buf[at] = byte(v & 0x7f)
	for v >>= 7; v != 0; v >>= 7 {
		v--
		at--
		buf[at] = 0x80 | byte(v&0x7f)
	}
	return append(out, buf[at:]...)
}

// checksum returns the end of an index.
func checksum(p []byte, size int) []byte {
	h := githash.NewSHA1()
	if size == githash.SHA256Size {
		h = githash.NewSHA256()
	}
	_, _ = h.Write(p)
	return h.Sum()
}
