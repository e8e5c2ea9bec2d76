//go:build linux

// Package stuck finds threads of this program that wait for a file system that does not answer, and gives the signals
// that they do not handle to others. It imports nothing of this module, and ends nothing itself.
package stuck

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Calls are the system calls about files in which threads of this process were, by thread.
type Calls map[string]string

// Now looks at all threads. Nil: /proc does not tell.
func Now() Calls {
	const tasks = "/proc/self/task"
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	c := Calls{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(tasks, e.Name(), "syscall"))
		if err != nil {
			continue
		}
		text := string(bytes.TrimSpace(b))
		if nr, _ := words(text); files[nr] != nil {
			c[e.Name()] = text
		}
	}
	return c
}

// Still reports whether a thread is in the same call as before, and which file that is about; empty: it is not known.
func (c Calls) Still() (file string, still bool) {
	now := Now()
	for thread, call := range c {
		if now[thread] != call {
			continue
		}
		still = true
		nr, args := words(call)
		if file = files[nr](args); file != "" {
			break
		}
	}
	return file, still
}

// words returns the number of a system call and its arguments. The text also has the stack pointer and the program
// counter, or only "running".
func words(text string) (nr uint64, args [6]uint64) {
	fields := strings.Fields(text)
	if len(fields) < 1+len(args) {
		return ^uint64(0), args
	}
	nr, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return ^uint64(0), args
	}
	for i := range args {
		args[i], _ = strconv.ParseUint(fields[1+i], 0, 64)
	}
	return nr, args
}

// files returns the file that a call is about. Calls that can take long on a disk that answers, such as fsync(2) and
// unlink(2), are not here.
var files = map[uint64]func(args [6]uint64) string{
	unix.SYS_OPENAT:            pathAt(0, 1),
	unix.SYS_OPENAT2:           pathAt(0, 1),
	unix.SYS_NEWFSTATAT:        pathAt(0, 1),
	unix.SYS_STATX:             pathAt(0, 1),
	unix.SYS_READLINKAT:        pathAt(0, 1),
	unix.SYS_FACCESSAT:         pathAt(0, 1),
	unix.SYS_FACCESSAT2:        pathAt(0, 1),
	unix.SYS_NAME_TO_HANDLE_AT: pathAt(0, 1),
	unix.SYS_MKDIRAT:           pathAt(0, 1),
	unix.SYS_OPEN_TREE:         pathAt(0, 1),
	unix.SYS_INOTIFY_ADD_WATCH: path(1),
	unix.SYS_FANOTIFY_MARK:     pathAt(3, 4),
	unix.SYS_STATFS:            path(0),
	unix.SYS_CHDIR:             path(0),
	unix.SYS_GETXATTR:          path(0),
	unix.SYS_LGETXATTR:         path(0),
	unix.SYS_LISTXATTR:         path(0),
	unix.SYS_LLISTXATTR:        path(0),
	unix.SYS_FSTAT:             descriptor,
	unix.SYS_FSTATFS:           descriptor,
	unix.SYS_GETDENTS64:        descriptor,
	unix.SYS_FGETXATTR:         descriptor,
	unix.SYS_FLISTXATTR:        descriptor,
	unix.SYS_PREAD64:           descriptor,
	unix.SYS_OPEN_BY_HANDLE_AT: descriptor,
}

func pathAt(dir, at int) func(args [6]uint64) string {
	return func(args [6]uint64) string {
		name := text(args[at])
		if filepath.IsAbs(name) || int32(args[dir]) == unix.AT_FDCWD {
			return name
		}
		return filepath.Join(descriptor([6]uint64{args[dir]}), name)
	}
}

func path(at int) func(args [6]uint64) string {
	return func(args [6]uint64) string { return text(args[at]) }
}

func descriptor(args [6]uint64) string {
	name, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(int32(args[0]))))
	return name
}

// text reads a C string of this process through the kernel, because the call may have returned meanwhile.
func text(at uint64) string {
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return ""
	}
	defer mem.Close()
	b := make([]byte, unix.PathMax)
	n, _ := mem.ReadAt(b, int64(at)) // less where the memory ends
	name, _, ended := bytes.Cut(b[:n], []byte{0})
	if !ended {
		return ""
	}
	return string(name)
}
