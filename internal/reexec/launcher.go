//go:build linux

// Package reexec is the second stage of a program that embeds nsrun: started
// again under another name, the program is a small process, the launcher, that
// clones sandboxes for it, so that the program itself, with its heap and its
// secrets, never is.
//
// The package's init function looks at argv[0]; where it has the launcher's name,
// init never returns, and nothing else of the program runs. It imports next to
// nothing, so that it is initialised early.
//
//	program                     launcher                    clone
//	  | block, [socket, status] ->|                           |
//	  |                           | clone3(CLONE_PARENT) ---->|
//	  |<------------ status: pid -|                           |
//	  | block, [0, 1, 2, …] --------------------------------->| socket
//	  |<-------------------------------------- status: started|
//	  |<----------------------------------------- status: exit|
//	  |<------------------------------------------------ wait4|
//
// Each message on the launcher's socket is one laid-out Program (package prog)
// with two descriptors: the clone's end of a socket on which it receives the
// rest of its work, and the write end of its status pipe. Because of
// CLONE_PARENT the clone is a child of the program: the program waits for it, and
// it dies with the program, not with the launcher.
package reexec

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/secureexec"
)

// LauncherName is argv[0] of the launcher.
const LauncherName = "nsrun:launcher"

// ControlFd is the launcher's end of the socket to the program.
const ControlFd = 3

// InProcess makes this process clone sandboxes itself: it is small and has no
// secrets. The nsrun command sets it before anything else; it clones from its
// main thread only.
var InProcess bool

func init() {
	if len(os.Args) > 0 && os.Args[0] == LauncherName && !secureexec.On() {
		launch()
	}
}

// launchBlock is where the launcher receives Programs. They hold addresses of
// themselves from prepare to the clone: it must not be on a stack that may move.
var launchBlock [InlineMax / 8]uint64

// launch serves the program until it goes away. Signals are blocked: the program
// started it so. It runs on the main thread, which package initialisation never
// leaves.
func launch() {
	syscall.RawSyscall(sysCloseRange, ControlFd+1, 0xffffffff, 0)
	// The program's directory is not for us to keep busy.
	_ = syscall.Chdir("/")
	block := unsafe.Slice((*byte)(unsafe.Pointer(&launchBlock)), InlineMax)
	control := make([]byte, syscall.CmsgSpace(4*maxFirstFds))
	for {
		n, fds, err := receiveMessage(block, control)
		if err != 0 || n == 0 {
			exit(0)
		}
		pid, errno := Spawn(block[:n], fds)
		report(uintptr(fds[len(fds)-1]), prog.RecordPid, uint32(pid), uint32(errno), 0)
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}
}

// maxFirstFds is how many descriptors a first Program can have: the socket,
// namespaces to join, the status pipe.
const maxFirstFds = 8

// receiveMessage reads one message with its descriptors.
func receiveMessage(block, control []byte) (n int, fds []int, errno syscall.Errno) {
	iov := syscall.Iovec{Base: &block[0], Len: uint64(len(block))}
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &control[0], Controllen: uint64(len(control))}
	for {
		r, _, e := syscall.Syscall(sysRecvmsg, ControlFd, uintptr(unsafe.Pointer(&msg)), cmsgCloexec)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || r == 0 {
			return 0, nil, e
		}
		n = int(r)
		break
	}
	if msg.Controllen < uint64(syscall.CmsgLen(4*2)) {
		return 0, nil, syscall.EBADMSG
	}
	header := (*syscall.Cmsghdr)(unsafe.Pointer(&control[0]))
	count := (int(header.Len) - syscall.CmsgLen(0)) / 4
	for _, fd := range unsafe.Slice((*int32)(unsafe.Pointer(&control[syscall.CmsgLen(0)])), count) {
		fds = append(fds, int(fd))
	}
	return n, fds, 0
}
