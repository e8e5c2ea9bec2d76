//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"
)

// leastSpace is how much address space the runtime needs to start, in bytes. With less it crashes with a stack trace.
// It also crashes with a limit from lackingFrom to lackingTo: it then gets 512 MiB that it could do without, and the
// rest is too small.
const (
	leastSpace             = 768 << 20
	lackingFrom, lackingTo = 1104 << 20, 1280 << 20
)

// leastData is how much of it the runtime needs to be able to write to, in bytes: 32 MiB are for one table.
const leastData = 48 << 20

// leastStack is how much of it the runtime and nsrun use on the stack that the kernel makes, in bytes.
const leastStack = 32 << 10

// tryStack is how much function try uses of it, or the program that it starts. With 8 KiB the kernel itself ends some
// processes before their first instruction.
const tryStack = 16 << 10

const (
	noStack   = "nsrun: the stack of a process is limited to less than 32 KiB, and the Go runtime needs as much (try: ulimit -s unlimited)\n"
	noData    = "nsrun: the data of a process is limited to less than 48 MiB, and the Go runtime needs as much (try: ulimit -d unlimited)\n"
	noSpace   = "nsrun: the address space is limited to less than 768 MiB, and the Go runtime needs as much (try: ulimit -v unlimited)\n"
	oddSpace  = "nsrun: with an address space that is limited to between 1104 and 1280 MiB the Go runtime does not start (try: ulimit -v unlimited, or ulimit -v 1048576)\n"
	noThreads = "nsrun: the limit of processes leaves no room for 10 threads, which the Go runtime and nsrun need (try: ulimit -u unlimited)\n"
)

// fewProcesses is a limit below which needThreads makes processes to find out how many there can be.
const fewProcesses, leastThreads = 256, 10

// needSpace ends the process if RLIMIT_AS, RLIMIT_DATA or RLIMIT_STACK does not let the runtime start.
func needSpace(stack unsafe.Pointer) {
	switch space := limit(syscall.RLIMIT_AS); {
	case space < leastSpace:
		end(stack, noSpace)
	case space >= lackingFrom && space < lackingTo:
		end(stack, oddSpace)
	case limit(syscall.RLIMIT_DATA) < leastData:
		end(stack, noData)
	case limit(syscall.RLIMIT_STACK) < leastStack:
		end(stack, noStack)
	}
}

// needStack ends the process if RLIMIT_STACK does not let function try run.
func needStack(stack unsafe.Pointer) {
	if limit(syscall.RLIMIT_STACK) < tryStack {
		end(stack, noStack)
	}
}

// needThreads ends the process if RLIMIT_NPROC does not let the runtime make its threads. How many processes the user
// has already is not known, so it makes some that wait until all are there. It does that only if the limit is low.
func needThreads(stack unsafe.Pointer) {
	const rlimitNproc = 6
	if limit(rlimitNproc) >= fewProcesses {
		return
	}
	var pipe [2]int32
	if _, _, e := syscall.RawSyscall(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&pipe)), syscall.O_CLOEXEC, 0); e != 0 {
		return
	}
	var made [leastThreads]uintptr
	n := 0
	for n < leastThreads {
		pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, 0, 0, 0, 0, 0, 0)
		if e != 0 {
			break
		}
		if pid == 0 {
			closeFd(pipe[1])
			var b [1]byte
			syscall.RawSyscall(syscall.SYS_READ, uintptr(pipe[0]), uintptr(unsafe.Pointer(&b)), 1) // until its parent closes the pipe, or ends
			exit(0)
		}
		made[n] = pid
		n++
	}
	closeFd(pipe[0])
	closeFd(pipe[1])
	for i := range n {
		const wall = 0x40000000 // __WALL: they send no SIGCHLD
		for {
			if _, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, made[i], 0, wall, 0, 0, 0); e != syscall.EINTR {
				break
			}
		}
	}
	if n < leastThreads {
		end(stack, noThreads)
	}
}

// limit returns the soft limit of a resource. It is the highest number if it is not known.
func limit(resource uintptr) uint64 {
	var limit syscall.Rlimit
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, resource, 0, uintptr(unsafe.Pointer(&limit)), 0, 0); e != 0 {
		return ^uint64(0)
	}
	return limit.Cur
}

// end ends the process with a message.
func end(stack unsafe.Pointer, message ...string) {
	status := uintptr(125)
	if argv := unsafe.Add(stack, 8); *(*int)(stack) > 1 && text(argv, 1) != "" && text(argv, 1)[0] == '-' {
		status = 1 // as bubblewrap's
	}
	for _, part := range message {
		syscall.RawSyscall(syscall.SYS_WRITE, 2, uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(len(part)))
	}
	exit(status)
}
