package gitindex

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Seen is what git keeps of the stat(2) of a file; times are in nanoseconds since 1970.
type Seen struct {
	Ctime, Mtime int64
	Dev, Ino     uint64
	UID, GID     uint32
	Size         int64
}

func (s Seen) data() statData {
	return statData{
		uint32(s.Ctime / 1e9), uint32(s.Ctime % 1e9), uint32(s.Mtime / 1e9), uint32(s.Mtime % 1e9),
		uint32(s.Dev), uint32(s.Ino), s.UID, s.GID, uint32(s.Size),
	}
}

// Refresh changes the file data, which x was read from: files that git found as they were get what it would find now.
// The function moved says how a file was and is; only device, inode number and ctime may differ. Devices and inode
// numbers are not compared, because an overlay shows others. Refresh returns the parts of data that it changed, each as
// begin and end.
func (x *Index) Refresh(data []byte, moved func(path string) (was, is Seen, ok bool)) (parts [][2]int) {
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Stage != 0 || e.Mode == modeSub || e.Mode == modeDir {
			continue
		}
		was, is, ok := moved(e.Path)
		old, now := was.data(), is.data()
		same := func(a, b statData) bool {
			return slices.Equal(a[statMtime:4], b[statMtime:4]) && slices.Equal(a[statOwner:], b[statOwner:])
		}
		if !ok || !slices.Equal(e.stat[:statMtime], old[:statMtime]) || !same(e.stat, old) || !same(old, now) || e.stat == now {
			continue
		}
		for k, v := range now[:statOwner] { // the mode comes after these
			binary.BigEndian.PutUint32(data[e.at+4*k:], v)
		}
		e.stat = now
		parts = append(parts, [2]int{e.at, e.at + modeAt})
	}
	sum := len(data) - x.idSize
	if len(parts) > 0 && !bytes.Equal(data[sum:], make([]byte, x.idSize)) { // zeros stand for no checksum
		copy(data[sum:], checksum(data[:sum], x.idSize))
		parts = append(parts, [2]int{sum, len(data)})
	}
	return parts
}
