//go:build linux

package strike

import (
	"fmt"
	"os"
	"path/filepath"
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
	look                    // only looks, or gets a descriptor
)

// A form is how the arguments of a system call are to be read.
type form struct {
	name string
	kind kind
	args []arg
}

// An arg is one argument, or two.
type arg struct {
	what argKind
	at   int
}

type argKind uint8

const (
	descriptor argKind = iota // of what the call is about
	path                      // relative to the working directory
	pathAt                    // relative to the descriptor before it
	text                      // of a link, or the name of an attribute
	flags                     // of a call that opens
	flagsIn                   // the same, in memory
)

var (
	onFD     = []arg{{descriptor, 0}}
	onPath   = []arg{{path, 0}}
	onPathAt = []arg{{pathAt, 1}}
	twoPaths = []arg{{pathAt, 1}, {pathAt, 3}}
)

// calls are the system calls that count, by number; calls_amd64.go has those that only that architecture has.
var calls = map[uintptr]form{
	unix.SYS_OPENAT:  {"openat", opens, []arg{{pathAt, 1}, {flags, 2}}},
	unix.SYS_OPENAT2: {"openat2", opens, []arg{{pathAt, 1}, {flagsIn, 2}}},

	unix.SYS_WRITE:           {"write", write, onFD},
	unix.SYS_PWRITE64:        {"pwrite64", write, onFD},
	unix.SYS_WRITEV:          {"writev", write, onFD},
	unix.SYS_PWRITEV:         {"pwritev", write, onFD},
	unix.SYS_PWRITEV2:        {"pwritev2", write, onFD},
	unix.SYS_SENDFILE:        {"sendfile", write, onFD},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", change | room, []arg{{descriptor, 2}}},
	unix.SYS_IOCTL:           {"ioctl", clone, onFD},
	unix.SYS_FALLOCATE:       {"fallocate", change | room, onFD},
	unix.SYS_FTRUNCATE:       {"ftruncate", change | room, onFD},
	unix.SYS_TRUNCATE:        {"truncate", change | room, onPath},

	unix.SYS_MKDIRAT:   {"mkdirat", change | room, onPathAt},
	unix.SYS_MKNODAT:   {"mknodat", change | room, onPathAt},
	unix.SYS_SYMLINKAT: {"symlinkat", change | room, []arg{{pathAt, 2}, {text, 0}}},
	unix.SYS_LINKAT:    {"linkat", change | room, twoPaths},
	unix.SYS_RENAMEAT2: {"renameat2", change | room, twoPaths},
	unix.SYS_RENAMEAT:  {"renameat", change | room, twoPaths},
	unix.SYS_UNLINKAT:  {"unlinkat", change, onPathAt},

	unix.SYS_FCHMOD:       {"fchmod", change, onFD},
	unix.SYS_FCHMODAT:     {"fchmodat", change, onPathAt},
	unix.SYS_FCHMODAT2:    {"fchmodat2", change, onPathAt},
	unix.SYS_FCHOWN:       {"fchown", change, onFD},
	unix.SYS_FCHOWNAT:     {"fchownat", change, onPathAt},
	unix.SYS_UTIMENSAT:    {"utimensat", change, onPathAt},
	unix.SYS_SETXATTR:     {"setxattr", change | room, []arg{{path, 0}, {text, 1}}},
	unix.SYS_LSETXATTR:    {"lsetxattr", change | room, []arg{{path, 0}, {text, 1}}},
	unix.SYS_FSETXATTR:    {"fsetxattr", change | room, []arg{{descriptor, 0}, {text, 1}}},
	unix.SYS_REMOVEXATTR:  {"removexattr", change, []arg{{path, 0}, {text, 1}}},
	unix.SYS_LREMOVEXATTR: {"lremovexattr", change, []arg{{path, 0}, {text, 1}}},
	unix.SYS_FREMOVEXATTR: {"fremovexattr", change, []arg{{descriptor, 0}, {text, 1}}},

	unix.SYS_FSYNC:           {"fsync", flush, onFD},
	unix.SYS_FDATASYNC:       {"fdatasync", flush, onFD},
	unix.SYS_SYNCFS:          {"syncfs", flush, onFD},
	unix.SYS_SYNC_FILE_RANGE: {"sync_file_range", flush, onFD},
	unix.SYS_SYNC:            {"sync", flush, nil},

	unix.SYS_FCNTL: {"fcntl", lock, onFD},
	unix.SYS_FLOCK: {"flock", lock, onFD},
}

// looks are the system calls that change nothing and can fail: they count with Plan.Looks.
var looks = map[uintptr]form{
	unix.SYS_READ:              {"read", look, onFD},
	unix.SYS_PREAD64:           {"pread64", look, onFD},
	unix.SYS_READV:             {"readv", look, onFD},
	unix.SYS_GETDENTS64:        {"getdents64", look, onFD},
	unix.SYS_MMAP:              {"mmap", look, []arg{{descriptor, 4}}},
	unix.SYS_LSEEK:             {"lseek", look, onFD},
	unix.SYS_STATX:             {"statx", look, onPathAt},
	unix.SYS_FSTAT:             {"fstat", look, onFD},
	unix.SYS_STATFS:            {"statfs", look, onPath},
	unix.SYS_FSTATFS:           {"fstatfs", look, onFD},
	unix.SYS_READLINKAT:        {"readlinkat", look, onPathAt},
	unix.SYS_FACCESSAT:         {"faccessat", look, onPathAt},
	unix.SYS_FACCESSAT2:        {"faccessat2", look, onPathAt},
	unix.SYS_GETXATTR:          {"getxattr", look, []arg{{path, 0}, {text, 1}}},
	unix.SYS_LGETXATTR:         {"lgetxattr", look, []arg{{path, 0}, {text, 1}}},
	unix.SYS_FGETXATTR:         {"fgetxattr", look, []arg{{descriptor, 0}, {text, 1}}},
	unix.SYS_LISTXATTR:         {"listxattr", look, onPath},
	unix.SYS_LLISTXATTR:        {"llistxattr", look, onPath},
	unix.SYS_FLISTXATTR:        {"flistxattr", look, onFD},
	unix.SYS_NAME_TO_HANDLE_AT: {"name_to_handle_at", look, onPathAt},
	unix.SYS_OPEN_BY_HANDLE_AT: {"open_by_handle_at", look, onFD},
	unix.SYS_DUP3:              {"dup3", look, onFD},
}

// A Call is a system call that a thread was about to do.
type Call struct {
	Name  string   // "renameat2"
	Files []string // what it is about: paths, absolute as far as that can be told
	Text  string   // the text of a link, or the name of an attribute
	Flags uint64   // of a call that opens
}

// String shows the call in one line.
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(c.Name)
	for _, f := range c.Files {
		fmt.Fprintf(&b, " %q", f)
	}
	if c.Text != "" {
		fmt.Fprintf(&b, " (%q)", c.Text)
	}
	if c.Flags != 0 {
		fmt.Fprintf(&b, " flags %#x", c.Flags)
	}
	return b.String()
}

// read looks at the arguments of a call of the thread tid.
func (f form) read(tid int, args [6]uint64) Call {
	c := Call{Name: f.name}
	for _, a := range f.args {
		v := args[a.at]
		switch a.what {
		case descriptor:
			c.Files = append(c.Files, fileOf(tid, v))
		case path:
			c.Files = append(c.Files, filepath.Join(fileOf(tid, atCwd), readText(tid, v)))
		case pathAt:
			var p string
			if v != 0 {
				p = readText(tid, v)
			}
			if !filepath.IsAbs(p) {
				p = filepath.Join(fileOf(tid, args[a.at-1]), p)
			}
			c.Files = append(c.Files, p)
		case text:
			c.Text = readText(tid, v)
		case flags:
			c.Flags = v
		case flagsIn:
			c.Flags = readWord(tid, v)
		}
	}
	return c
}

// atCwd is AT_FDCWD, as an argument.
var atCwd = uint64(unix.AT_FDCWD & (1<<64 - 1))

// fileOf is where a descriptor of the thread leads to.
func fileOf(tid int, fd uint64) string {
	name := "/proc/" + strconv.Itoa(tid) + "/cwd"
	if int32(fd) != unix.AT_FDCWD {
		name = "/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(int(int32(fd)))
	}
	to, err := os.Readlink(name)
	if err != nil {
		return "?"
	}
	return to
}

// of reports the kind of a call with these arguments: zero if it does not count after all.
func (f form) of(c Call, args [6]uint64) kind {
	switch {
	case f.kind&opens != 0:
		switch {
		case c.Flags&unix.O_CREAT != 0:
			return change | room | opens
		case c.Flags&unix.O_TRUNC != 0:
			return change | opens
		}
		return opens
	case f.kind&write != 0:
		// Pipes, terminals and the runtime's own descriptors are not files.
		if to := c.Files[0]; !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/dev/") && !strings.HasPrefix(to, "/dev/shm/") {
			return 0
		}
		return change | room
	case f.kind&lock != 0:
		if f.name == "fcntl" {
			switch args[1] {
			case unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_OFD_SETLKW:
			case unix.F_DUPFD, unix.F_DUPFD_CLOEXEC:
				return look
			default:
				return 0
			}
		}
		return lock
	case f.kind&clone != 0:
		if args[1] != unix.FICLONE && args[1] != unix.FICLONERANGE {
			return look
		}
		return change | room
	case f.kind&look != 0:
		if f.args[0].what == descriptor && !strings.HasPrefix(c.Files[0], "/") { // a pipe, a socket, or no file at all
			return 0
		}
		return look
	}
	return f.kind
}
