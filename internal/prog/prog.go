//go:build linux

// Package prog builds Programs: flat lists of system calls, laid out in memory
// before a process is cloned, which the clone runs without allocating, without
// locks and without the Go scheduler.
//
// A Program is one block of bytes that may be moved anywhere and sent to
// another process:
//
//	Header | descriptors | slots | operations | data
//
// Pointers are offsets into the block; an operation marks which of its
// arguments are offsets, and a list of relocations names the words of the data
// (argv, envp) that are. Results of calls (descriptors) are kept in slots, which
// later operations name.
//
// The text form of a Program (Program.Format) is what --explain prints and what
// golden tests compare, without a kernel.
package prog

import (
	"strings"
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

	Held    [MaxHeld]uint32 // their numbers, ascending
	Scratch [48]uint64      // for the child, whose stack is small
}

// MaxHeld is how many descriptors PID 1 can hold besides the status pipe.
const MaxHeld = 64

// Bits of the argument of Fork: what PID 1 does.
const (
	ForkLinger  = 1 << iota // it stays until nobody is left
	ForkForward             // it passes signals on to the command
)

// Request is a siginfo_t that asks PID 1 for something: see sigqueue(3).
type Request struct {
	Signo, Errno, Code, _ int32
	Pid, UID              uint32 // the kernel makes Pid 0 where the sender is outside
	Value                 uint64
	_                     [12]uint64
}

// What the fields of a Request are.
const (
	RequestSignal = 64           // SIGRTMAX: it is queued, and programs do not use it
	RequestCode   = -1           // SI_QUEUE
	RequestStop   = 0x6e7372756e // Value: stop the command
)

// Magic begins every Program, and changes with its layout.
const Magic = 0x6e737205

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
	// FlagFull makes a result other than the third argument an ENOSPC: a short
	// write.
	FlagFull = 1 << 12
)

// OpSize and HeaderSize are the sizes in a block.
const (
	OpSize     = unsafe.Sizeof(Op{})
	HeaderSize = unsafe.Sizeof(Header{})
)

// Step is what an operation is part of, in words a user knows: "bind", the path.
type Step struct {
	Op, Path string
	Name     string // a name in the directory Path
	Part     Part
	Mount    int32 // 1 + the index in the list of mounts; 0: none of them
}

// path is the whole path.
func (s *Step) path() string {
	if s.Name == "" {
		return s.Path
	}
	return strings.TrimSuffix(s.Path, "/") + "/" + s.Name
}

// Where is the step's operation and path.
func (s *Step) Where() (op, path string) { return s.Op, s.path() }

// partShift is where a Record's errno has the part, if the operation knows it
// better than the step.
const partShift = 16

// WithErrno is the number of an error that says its part.
func (p Part) WithErrno(e syscall.Errno) syscall.Errno { return e | syscall.Errno(p)<<partShift }

// SplitErrno undoes WithErrno.
func SplitErrno(e uint32) (syscall.Errno, Part) {
	return syscall.Errno(e & (1<<partShift - 1)), Part(e >> partShift)
}

// Program is a list of system calls that was built and can be laid out.
type Program struct {
	Arch  Arch
	Steps []Step
	Stage uint32 // see Header.Stage
	Flags uint64 // of clone3(2)
	NFds  int    // descriptors to pass, the status pipe included and last

	ops   []Op
	data  []byte
	rel   []uint32 // offsets into data of words that are offsets into data
	slots int
}

// Record is what the clone, or whoever cloned it, writes to the status pipe: 16
// bytes, so that writes are whole (pipe(7), PIPE_BUF).
type Record struct {
	Kind  uint32 // RecordPid …
	Value uint32 // process id; step; wait status
	Errno uint32 // see SplitErrno
	Op    uint32 // which operation failed
}

// RecordSize is the size of a Record on the pipe.
const RecordSize = unsafe.Sizeof(Record{})

// Kinds of Record.
const (
	RecordPid     = 1 + iota // Value is the process id of the clone; Errno if there is none
	RecordFail               // operation Op of step Value failed with Errno
	RecordStarted            // the command was executed
	RecordExit               // the command's wait status is Value
	RecordText               // Value bytes follow: what a failed Same found
)

// Len is the number of bytes that Layout writes.
func (p *Program) Len() int {
	return p.dataOff() + len(p.data) + 4*len(p.rel)
}

func align8(n int) int { return (n + 7) &^ 7 }

func (p *Program) slotsOff() int { return align8(int(HeaderSize) + 4*p.NFds) }
func (p *Program) opsOff() int   { return p.slotsOff() + 8*p.slots }
func (p *Program) dataOff() int  { return p.opsOff() + int(OpSize)*len(p.ops) }

// Layout writes p into block, which has Len bytes and is aligned to 8.
func (p *Program) Layout(block []byte) {
	if len(p.data)%8 != 0 {
		panic("BUG: data of a program is not padded")
	}
	off := p.dataOff()
	h := (*Header)(unsafe.Pointer(&block[0]))
	*h = Header{
		Magic: Magic, Size: uint32(p.Len()),
		NOps: uint32(len(p.ops)), Ops: uint32(p.opsOff()),
		Slots: uint32(p.slotsOff()), NSlots: uint32(p.slots),
		Data: uint32(off), NFds: uint32(p.NFds), Fds: uint32(HeaderSize),
		NRel: uint32(len(p.rel)), Rel: uint32(off + len(p.data)),
		Flags: p.Flags, Stage: p.Stage,
	}
	clear(block[HeaderSize:p.opsOff()])
	ops := unsafe.Slice((*Op)(unsafe.Pointer(&block[p.opsOff()])), len(p.ops))
	copy(ops, p.ops)
	for i := range ops {
		for a := range ops[i].Args {
			if ops[i].Kind>>(2*a)&3 == KindPtr {
				ops[i].Args[a] += uint64(off)
			}
		}
	}
	copy(block[off:], p.data)
	for i, r := range p.rel {
		w := (*uint64)(unsafe.Pointer(&block[off+int(r)]))
		*w += uint64(off)
		*(*uint32)(unsafe.Pointer(&block[off+len(p.data)+4*i])) = uint32(off) + r
	}
}

// Block is p laid out in fresh memory.
func (p *Program) Block() []byte {
	words := make([]uint64, (p.Len()+7)/8) // for the alignment
	block := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), p.Len())
	p.Layout(block)
	return block
}
