//go:build linux

package prerun

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"
)

// What the entry point records for main.
var (
	entered     bool       // the entry point was executed
	environment [2]uintptr // the address and length of the environment, as the kernel put it
	ignored     uint64     // signals that were ignored, bit n-1 for signal n
	closed      [3]bool    // standard descriptors that were closed

	notExecuted syscall.Errno // why a command could not be executed, or what it said about that
)

// Entered reports whether this process began here, before the Go runtime.
func Entered() bool { return entered }

// Ignored are the signals that this process ignored when it was executed, bit n-1 for
// signal n. With another entry point it is zero, because the runtime has changed them.
func Ignored() uint64 { return ignored }

// Closed are the standard descriptors that were closed when this process was executed.
// With another entry point there are none, because the runtime has opened them.
func Closed() [3]bool { return closed }

// NotExecuted is the error if all was set up for a command before main, and the command could not be executed. It must
// not be tried again: if the command has reported this error itself, it was executed. Zero: nothing was tried.
func NotExecuted() syscall.Errno { return notExecuted }

// Environ is the memory in which the kernel put this process's environment. /proc shows it of a clone of this process,
// until that executes something. Nil: it is not known.
func Environ() []byte {
	if !entered {
		environment = ownEnviron()
	}
	return kernelEnviron()
}

func kernelEnviron() []byte {
	if environment[1] == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&environment[0])), environment[1])
}

// ownEnviron asks the kernel where that is.
func ownEnviron() (at [2]uintptr) {
	const start, end = 50 - 3, 51 - 3 // proc_pid_stat(5), behind the name
	// Not with an os.File: the runtime may open descriptors for it, with numbers that options could name.
	fd, err := syscall.Open("/proc/self/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return at
	}
	defer syscall.Close(fd)
	stat := make([]byte, 4096) // the name is short, and the rest are numbers
	n, err := syscall.Read(fd, stat)
	if err != nil {
		return at
	}
	stat = stat[:n]
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= end {
		return at
	}
	from, err1 := strconv.ParseUint(string(fields[start]), 10, 64)
	to, err2 := strconv.ParseUint(string(fields[end]), 10, 64)
	if err1 != nil || err2 != nil || from == 0 || to < from {
		return at
	}
	return [2]uintptr{uintptr(from), uintptr(to - from)}
}
