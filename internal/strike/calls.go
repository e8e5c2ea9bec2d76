package strike

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A kind says what a system call does.
type kind uint8

const (
	change kind = 1 << iota // changes a file system
	room                    // and may need room for that
	write                   // writes to a descriptor, which may be no file
	opens                   // opens: what it changes depends on flags
	lock                    // fcntl(2), where it locks
	clone                   // ioctl(2), where it shares data
	flush                   // waits for a disk
)

// A call is one line of the table.
type call struct {
	name  string
	kind  kind
	paths []int // which arguments are paths
	flags int   // of a call that opens: the argument with the flags
}

// calls are the system calls that count, by number; calls_amd64.go has those that only
// that architecture has.
var calls = map[uintptr]call{
	unix.SYS_OPENAT:  {"openat", opens, []int{1}, 2},
	unix.SYS_OPENAT2: {"openat2", opens, []int{1}, 2}, // points to them

	unix.SYS_WRITE:           {"write", write | room, nil, 0},
	unix.SYS_PWRITE64:        {"pwrite64", write | room, nil, 0},
	unix.SYS_WRITEV:          {"writev", write | room, nil, 0},
	unix.SYS_PWRITEV:         {"pwritev", write | room, nil, 0},
	unix.SYS_PWRITEV2:        {"pwritev2", write | room, nil, 0},
	unix.SYS_SENDFILE:        {"sendfile", write | room, nil, 0},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", change | room, nil, 0},
	unix.SYS_IOCTL:           {"ioctl", clone | room, nil, 0},
	unix.SYS_FALLOCATE:       {"fallocate", change | room, nil, 0},
	unix.SYS_FTRUNCATE:       {"ftruncate", change | room, nil, 0},
	unix.SYS_TRUNCATE:        {"truncate", change | room, []int{0}, 0},

	unix.SYS_MKDIRAT:   {"mkdirat", change | room, []int{1}, 0},
	unix.SYS_MKNODAT:   {"mknodat", change | room, []int{1}, 0},
	unix.SYS_SYMLINKAT: {"symlinkat", change | room, []int{0, 2}, 0},
	unix.SYS_LINKAT:    {"linkat", change | room, []int{1, 3}, 0},
	unix.SYS_RENAMEAT2: {"renameat2", change | room, []int{1, 3}, 0},
	unix.SYS_RENAMEAT:  {"renameat", change | room, []int{1, 3}, 0},
	unix.SYS_UNLINKAT:  {"unlinkat", change, []int{1}, 0},

	unix.SYS_FCHMOD:       {"fchmod", change, nil, 0},
	unix.SYS_FCHMODAT:     {"fchmodat", change, []int{1}, 0},
	unix.SYS_FCHMODAT2:    {"fchmodat2", change, []int{1}, 0},
	unix.SYS_FCHOWN:       {"fchown", change, nil, 0},
	unix.SYS_FCHOWNAT:     {"fchownat", change, []int{1}, 0},
	unix.SYS_UTIMENSAT:    {"utimensat", change, []int{1}, 0},
	unix.SYS_SETXATTR:     {"setxattr", change | room, []int{0, 1}, 0},
	unix.SYS_LSETXATTR:    {"lsetxattr", change | room, []int{0, 1}, 0},
	unix.SYS_FSETXATTR:    {"fsetxattr", change | room, []int{1}, 0},
	unix.SYS_REMOVEXATTR:  {"removexattr", change, []int{0, 1}, 0},
	unix.SYS_LREMOVEXATTR: {"lremovexattr", change, []int{0, 1}, 0},
	unix.SYS_FREMOVEXATTR: {"fremovexattr", change, []int{1}, 0},

	unix.SYS_FSYNC:           {"fsync", flush, nil, 0},
	unix.SYS_FDATASYNC:       {"fdatasync", flush, nil, 0},
	unix.SYS_SYNCFS:          {"syncfs", flush, nil, 0},
	unix.SYS_SYNC_FILE_RANGE: {"sync_file_range", flush, nil, 0},
	unix.SYS_SYNC:            {"sync", flush, nil, 0},

	unix.SYS_FCNTL: {"fcntl", lock, nil, 0},
	unix.SYS_FLOCK: {"flock", lock, nil, 0},
}

// of reports the kind of the call that the thread tid is about to do: zero if it
// does not count after all.
func (c call) of(tid int, args [6]uint64) kind {
	switch {
	case c.kind&opens != 0:
		flags := args[c.flags]
		if c.name == "openat2" {
			flags = readWord(tid, flags)
		}
		switch {
		case flags&unix.O_CREAT != 0:
			return change | room | opens
		case flags&unix.O_TRUNC != 0:
			return change | opens
		}
		return opens
	case c.kind&write != 0:
		// Pipes, terminals and the runtime's own descriptors are no files.
		to, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(int(int32(args[0]))))
		if err != nil || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/dev/") && !strings.HasPrefix(to, "/dev/shm/") {
			return 0
		}
		return change | room
	case c.kind&lock != 0:
		if c.name == "fcntl" {
			switch args[1] {
			case unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_OFD_SETLKW:
			default:
				return 0
			}
		}
		return lock
	case c.kind&clone != 0:
		if args[1] != unix.FICLONE && args[1] != unix.FICLONERANGE {
			return 0
		}
		return change | room
	}
	return c.kind
}

// text shows a call with its paths, and where its first descriptor leads to.
func (c call) text(tid int, args [6]uint64) string {
	var b strings.Builder
	b.WriteString(c.name)
	if len(c.paths) == 0 || c.paths[0] != 0 {
		if to, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(int(int32(args[0])))); err == nil {
			fmt.Fprintf(&b, " <%s>", to)
		}
	}
	for _, i := range c.paths {
		if args[i] != 0 {
			fmt.Fprintf(&b, " %q", readText(tid, args[i]))
		}
	}
	if c.kind&opens != 0 {
		flags := args[c.flags]
		if c.name == "openat2" {
			flags = readWord(tid, flags)
		}
		fmt.Fprintf(&b, " %#x", flags)
	}
	return b.String()
}
