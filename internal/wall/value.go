//go:build linux

package wall

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// value is the new value for a file's mode, owner, times or attribute.
type value struct {
	deed     deed
	mode     uint32
	uid, gid int
	times    *[2]unix.Timespec // nil: now
	name     string            // of an attribute
	data     []byte
	flags    int
}

// maxAttribute is XATTR_SIZE_MAX.
const maxAttribute = 64 << 10

// value reads the new value from a call's arguments.
func (d *Deputy) value(n *notify.Notification, c *call) (v value, e syscall.Errno) {
	v.deed = c.deed
	arg := n.Args[c.arg]
	switch c.deed {
	case mode:
		v.mode = uint32(arg) & 0o7777
	case owner:
		v.uid, v.gid = int(int32(arg)), int(int32(n.Args[c.arg+1]))
	case times, oldTimes, utimbuf:
		if arg != 0 {
			v.times, e = readTimes(n.PID, uintptr(arg), c.deed)
		}
	case setsAttr, dropsAttr:
		if v.name, e = d.read(n.PID, uintptr(arg)); e != 0 {
			return v, e
		}
		// Other attributes are the kernel's own, or need privileges.
		if !strings.HasPrefix(v.name, "user.") && !strings.HasPrefix(v.name, "system.posix_acl_") {
			return v, syscall.EPERM
		}
		if c.deed == dropsAttr {
			break
		}
		size := n.Args[c.arg+2]
		if size > maxAttribute {
			return v, syscall.E2BIG
		}
		v.data, v.flags = make([]byte, size), int(int32(n.Args[c.arg+3]))
		e = notify.ReadMemory(n.PID, uintptr(n.Args[c.arg+1]), v.data)
	}
	return v, e
}

// readTimes reads the two times of a call from the caller's memory.
func readTimes(thread uint32, at uintptr, how deed) (*[2]unix.Timespec, syscall.Errno) {
	var raw [4]int64
	size := 32
	if how == utimbuf {
		size = 16
	}
	if e := notify.ReadMemory(thread, at, unsafe.Slice((*byte)(unsafe.Pointer(&raw)), 32)[:size]); e != 0 {
		return nil, e
	}
	switch how {
	case utimbuf:
		return &[2]unix.Timespec{{Sec: raw[0]}, {Sec: raw[1]}}, 0
	case oldTimes:
		for _, micro := range [...]int64{raw[1], raw[3]} {
			if micro < 0 || micro >= 1e6 {
				return nil, syscall.EINVAL
			}
		}
		raw[1], raw[3] = raw[1]*1000, raw[3]*1000
	}
	return &[2]unix.Timespec{{Sec: raw[0], Nsec: raw[1]}, {Sec: raw[2], Nsec: raw[3]}}, 0
}

// change changes a file that is open with O_PATH.
func (v *value) change(file sys.FD) syscall.Errno {
	at := sys.ProcPath(int(file))
	switch v.deed {
	case mode:
		return errnoOf(unix.Chmod(at, v.mode))
	case owner:
		return errnoOf(unix.Fchownat(int(file), "", v.uid, v.gid, unix.AT_EMPTY_PATH))
	case setsAttr:
		return errnoOf(unix.Setxattr(at, v.name, v.data, v.flags))
	case dropsAttr:
		return errnoOf(unix.Removexattr(at, v.name))
	}
	empty := [1]byte{}
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(file), uintptr(unsafe.Pointer(&empty)), uintptr(unsafe.Pointer(v.times)), unix.AT_EMPTY_PATH, 0, 0)
	return e
}
