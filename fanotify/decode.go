//go:build linux

package fanotify

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A record is one event as fanotify has it. Its slices are parts of the buffer that it was decoded from. A key is what
// a directory is known by: the file system's id, then the handle's length, type and bytes.
type record struct {
	mask uint64
	pid  int

	dir, name   []byte // a directory's key, and a name in it; of a rename, the old ones
	dir2, name2 []byte // of a rename, the new ones
	child       []byte // the key of what has the name
}

// Sizes of struct fanotify_event_metadata, and of what comes before the bytes of a
// handle in struct fanotify_event_info_fid: header, file system id, struct file_handle.
const (
	metadataSize = 24
	infoSize     = 4 + 8 + 8
)

// decode takes the first event off what read(2) returned. An event that is not as
// fanotify(7) has it is EIO; nothing of it is used.
func decode(b []byte) (r record, rest []byte, err error) {
	if len(b) < metadataSize {
		return r, nil, unix.EIO
	}
	size := binary.NativeEndian.Uint32(b)
	head := int(binary.NativeEndian.Uint16(b[6:]))
	if b[4] != unix.FANOTIFY_METADATA_VERSION || uint64(size) > uint64(len(b)) || head < metadataSize || int(size) < head {
		return r, nil, unix.EIO
	}
	r.mask = binary.NativeEndian.Uint64(b[8:])
	r.pid = int(int32(binary.NativeEndian.Uint32(b[20:])))
	rest = b[size:]
	for info := b[head:size]; len(info) > 0; {
		if len(info) < 4 {
			return r, nil, unix.EIO
		}
		n := int(binary.NativeEndian.Uint16(info[2:]))
		if n < 4 || n > len(info) {
			return r, nil, unix.EIO
		}
		switch info[0] {
		case unix.FAN_EVENT_INFO_TYPE_FID, unix.FAN_EVENT_INFO_TYPE_DFID, unix.FAN_EVENT_INFO_TYPE_DFID_NAME,
			unix.FAN_EVENT_INFO_TYPE_OLD_DFID_NAME, unix.FAN_EVENT_INFO_TYPE_NEW_DFID_NAME:
			if n < infoSize {
				return r, nil, unix.EIO
			}
			h := binary.NativeEndian.Uint32(info[12:])
			if uint64(h) > uint64(n-infoSize) {
				return r, nil, unix.EIO
			}
			key, name := info[4:infoSize+int(h)], info[infoSize+int(h):n]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			switch info[0] {
			case unix.FAN_EVENT_INFO_TYPE_FID:
				r.child = key
			case unix.FAN_EVENT_INFO_TYPE_NEW_DFID_NAME:
				r.dir2, r.name2 = key, name
			default:
				r.dir, r.name = key, name
			}
		}
		info = info[n:]
	}
	return r, rest, nil
}
