//go:build linux

// Package prog builds Programs: flat lists of system calls, laid out in memory before a process is cloned. The clone
// runs them without allocating, without locks and without the Go scheduler.
//
// A Program is one block of bytes that may be moved anywhere and sent to another process:
//
//	Header | descriptors | slots | operations | data
//
// Pointers are offsets into the block; an operation marks which of its arguments are offsets, and a list of relocations
// names the words of the data (argv, envp) that are. Results of calls (descriptors) are kept in slots, which later
// operations name.
//
// The package imports nothing of this module, and runs nothing: package reexec does.
//
// The text form of a Program (Program.Format) is what --explain prints and what golden tests compare, without a kernel.
package prog

import (
	"syscall"
	"unsafe"
)

// Header is the beginning of a laid-out Program. Offsets count from its start.
type Header struct {
	Magic  uint32
	Size   uint32 // of the whole block
	NOps   uint32
	Ops    uint32 // offset of the operations
	Slots  uint32 // offset of the slots, uint64 each
	NSlots uint32
	Data   uint32 // offset of the data
	NFds   uint32 // how many descriptors must be passed, the status pipe included
	Fds    uint32 // offset of their numbers, int32 each, filled in by whoever clones
	NRel   uint32 // how many relocations
	Rel    uint32 // offset of their offsets, uint32 each
	Failed uint32 // set by the command's process when it could not execute
	Flags  uint64 // of clone3(2)
	Stage  uint32 // or'ed into the step of reports, so that both halves can be told apart
	Fork   uint32 // the argument of Fork, for PID 1
	NHeld  uint32 // how many descriptors PID 1 holds

	Filters  uint64 // address of the addresses of seccomp programs for PID 1
	NFilters uint64

	// Arguments of Fork too, in nanoseconds of CLOCK_MONOTONIC; 0: never.
	Ask int64 // when PID 1 asks the command to end
	End int64 // when it kills everything

	Held    [MaxHeld]uint32 // their numbers, ascending
	Scratch [48]uint64      // for the child, whose stack is small
}

// MaxHeld is how many descriptors PID 1 can hold besides the status pipe.
const MaxHeld = 64

// Bits of the argument of Fork: what PID 1 does.
const (
	ForkLinger  = 1 << iota // it stays until nobody is left
	ForkForward             // it passes signals on to the command
	ForkDomain              // it is in a Landlock domain with all that it runs, and can send signals to nobody else
)

// RequestEnd is the signal by which the parent of a process with ForkDomain tells it to end everything. It can be
// queued, and programs do not use it.
const RequestEnd = 63

// Request is a siginfo_t that asks PID 1 for something: see sigqueue(3).
type Request struct {
	Signo, Errno, Code, _ int32
	Pid, UID              uint32 // the kernel makes Pid 0 where the sender is outside
	Value                 uint64
	_                     [12]uint64
}

// What the fields of a Request are.
const (
	RequestSignal = 64           // SIGRTMAX: it is queued, and programs do not use it; without a value it asks to stop
	RequestCode   = -1           // SI_QUEUE
	RequestStop   = 0x6e7372756e // Value: stop the command
	// RequestContinue is the Value that asks to continue it. The plain signal would overtake a stop, because the
	// kernel delivers signals with low numbers first. SIGCONT with this Value only wakes PID 1.
	RequestContinue = RequestStop + 1
)

// Magic begins every Program, and changes with its layout.
const Magic = 0x6e737206

// Op is one operation. A zero Tol tolerates nothing.
type Op struct {
	Nr   uint32    // number of the system call on this architecture, or Nr…
	Step uint32    // index into Program.Steps, for messages
	Kind uint16    // two bits per argument, and the flag bits below
	Out  uint16    // 1 + the slot for the result; 0: none
	OK   uint16    // operations to skip after success
	Err  uint16    // operations to skip after a tolerated error
	Tol  [2]uint64 // errnos below 128 that are fine here, a bit each
	Args [6]uint64
}

// Kinds of argument.
const (
	KindImm  = 0 // the value itself
	KindPtr  = 1 // an offset into the block
	KindSlot = 2 // the value of a slot
)

// Flags in Op.Kind above the twelve bits for the arguments.
const (
	// FlagFull makes a result other than the third argument an ENOSPC: a short write.
	FlagFull = 1 << 12
)

// OpSize and HeaderSize are the sizes in a block.
const (
	OpSize     = unsafe.Sizeof(Op{})
	HeaderSize = unsafe.Sizeof(Header{})
)

// partShift is where a Record's errno has the part, if the operation knows it better than the step.
const partShift = 16

// WithErrno is the number of an error that says its part.
func (p Part) WithErrno(e syscall.Errno) syscall.Errno { return e | syscall.Errno(p)<<partShift }

func SplitErrno(e uint32) (syscall.Errno, Part) {
	return syscall.Errno(e & (1<<partShift - 1)), Part(e >> partShift)
}

// Record is what the clone, or whoever cloned it, writes to the status pipe: 16
// bytes, so that writes are whole (pipe(7), PIPE_BUF).
type Record struct {
	Kind  uint32 // RecordPid …
	Value uint32 // process id; step; wait status
	Errno uint32 // see SplitErrno
	Op    uint32 // which operation failed
}

// Process is the process id in a RecordPid, 0 if there is none. A number that is no process id counts as none: kill(2)
// takes a number above 31 bits for a negative one, and -1 for every process.
func (r *Record) Process() int {
	if r.Errno != 0 || r.Value > 1<<31-1 {
		return 0
	}
	return int(r.Value)
}

const RecordSize = unsafe.Sizeof(Record{})

// Kinds of Record.
const (
	RecordPid      = 1 + iota // Value is the process id of the clone; Errno if there is none
	RecordFail                // operation Op of step Value failed with Errno
	RecordStarted             // the command was executed
	RecordExit                // the command's wait status is Value
	RecordText                // Value bytes follow: what a failed Same found
	RecordTimeout             // the time was up
	RecordHostProc            // the host's /proc is shown, read-only, for a new one was refused
)
