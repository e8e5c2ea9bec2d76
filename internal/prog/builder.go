//go:build linux && !nsrun_image

package prog

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"
)

// Slot holds the result of an operation, usually a descriptor.
type Slot uint16

// Arg is an argument of an operation.
type Arg struct {
	kind uint16
	val  uint64
}

// Int is a number.
func Int[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~uintptr | ~uint | ~uint16](v T) Arg {
	return Arg{KindImm, uint64(v)}
}

var AtCwd = Int(-100)

// Null is a null pointer.
var Null = Arg{}

// Arg uses what is in the slot.
func (s Slot) Arg() Arg { return Arg{KindSlot, uint64(s)} }

// Ptr is a place in the data of a Program.
type Ptr uint32

// Arg is the address of the place.
func (p Ptr) Arg() Arg { return Arg{KindPtr, uint64(p)} }

// Builder makes a Program. The zero Builder is not ready: use New.
type Builder struct {
	p     Program
	step  uint32
	mount int32
	free  []Slot
	fixed bool // nothing is allocated, see Fix
	full  bool
}

// Native is the architecture this process runs on.
func Native() Arch {
	if runtime.GOARCH == "arm64" {
		return ARM64
	}
	return AMD64
}

// New returns a Builder for programs of the given architecture.
func New(a Arch) *Builder {
	b := &Builder{}
	b.p.ops = make([]Op, 0, 32)
	b.p.data = make([]byte, 8, 1024)
	b.p.Steps = make([]Step, 0, 16)
	b.begin(a)
	return b
}

func (b *Builder) begin(a Arch) {
	b.p.Arch = a
	b.p.data = append(b.p.data[:0], make([]byte, 8)...) // offset 0 is the empty string
	b.p.Steps = append(b.p.Steps, Step{Op: "start"})
}

// Room is memory for a Builder that does not allocate, and its Program.
type Room struct {
	b     Builder
	ops   [maxFixedOps]Op
	data  [maxFixedData]byte
	rel   [maxFixedRel]uint32
	steps [1]Step
	free  [maxFixedFree]Slot
	block [maxFixedBlock / 8]uint64
}

// What a Room has room for: some thousand mounts.
const (
	maxFixedOps   = 48 << 10
	maxFixedData  = 2 << 20
	maxFixedRel   = 24 << 10
	maxFixedFree  = 512
	maxFixedBlock = maxFixedOps*int(OpSize) + maxFixedData + 4*maxFixedRel + 64<<10
)

// Builder returns a Builder that keeps all it makes in the Room: it can be used where the Go runtime has not started.
// Its Program has no Steps. The Room must be zero, and can be used once.
func (r *Room) Builder() *Builder {
	b := &r.b
	b.fixed = true
	b.p.Arch = Native()
	b.p.ops, b.p.data, b.p.rel = r.ops[:0], r.data[:8], r.rel[:0]
	b.p.Steps, b.free = r.steps[:], r.free[:0]
	return b
}

// Block is the Program laid out, or nil where it was too large.
func (r *Room) Block() []byte {
	r.b.pad()
	n := r.b.p.Len()
	if r.b.full || n > len(r.block)*8 {
		return nil
	}
	block := unsafe.Slice((*byte)(unsafe.Pointer(&r.block)), n)
	r.b.p.Layout(block)
	return block
}

// Fixed reports whether nothing may be allocated for b, not even for messages.
func (b *Builder) Fixed() bool { return b.fixed }

// room reports whether there is room for n more where the capacity is what is left. In a Room nothing grows.
func (b *Builder) room(left, n int) bool {
	if b.fixed && left < n {
		b.full = true
	}
	return !b.full
}

// bytes adds to the data.
func (b *Builder) bytes(v ...string) {
	for _, s := range v {
		if b.room(cap(b.p.data)-len(b.p.data), len(s)) {
			b.p.data = append(b.p.data, s...)
		}
	}
}

// Program is what was built. The Builder must not be used afterwards.
func (b *Builder) Program() *Program {
	b.pad()
	return &b.p
}

// Grow makes room for n more operations and size more bytes of data, where a
// Program is going to be large: growing by and by would copy it several times.
func (b *Builder) Grow(n, size int) {
	if b.fixed {
		return
	}
	b.p.ops = slices.Grow(b.p.ops, n)
	b.p.data = slices.Grow(b.p.data, size)
	b.p.Steps = slices.Grow(b.p.Steps, n/8)
}

// Step begins a step: the operations that follow belong to it.
func (b *Builder) Step(op, path string) {
	if b.fixed {
		return
	}
	b.p.Steps = append(b.p.Steps, Step{Op: op, Path: path, Mount: b.mount})
	b.step = uint32(len(b.p.Steps) - 1)
}

func (b *Builder) StepIn(op, dir, name string) {
	if b.fixed {
		return
	}
	b.Step(op, dir)
	b.p.Steps[b.step].Name = name
}

// Mount says that the steps that follow belong to the mount of this index; -1: to none.
func (b *Builder) Mount(index int) { b.mount = int32(index + 1) }

// Part is Step for a part of the same step.
func (b *Builder) Part(part Part) {
	if b.fixed {
		return
	}
	s := b.p.Steps[b.step]
	s.Part = part
	b.p.Steps = append(b.p.Steps, s)
	b.step = uint32(len(b.p.Steps) - 1)
}

// maxSlots is how many slots a Program can have: Op.Out counts from 1.
const maxSlots = math.MaxUint16

func (b *Builder) Slot() Slot {
	if n := len(b.free); n > 0 {
		s := b.free[n-1]
		b.free = b.free[:n-1]
		return s
	}
	if b.p.slots == maxSlots {
		panic("BUG: a program with too many slots")
	}
	b.p.slots++
	return Slot(b.p.slots - 1)
}

// Slots reserves n slots that follow each other, and returns the first.
func (b *Builder) Slots(n int) Slot {
	if b.p.slots+n > maxSlots {
		panic("BUG: a program with too many slots")
	}
	b.p.slots += n
	return Slot(b.p.slots - n)
}

// Close closes the descriptor in s and gives the slot back.
func (b *Builder) Close(s Slot) {
	b.Call(SysClose, s.Arg())
	if b.room(cap(b.free)-len(b.free), 1) {
		b.free = append(b.free, s)
	}
}

// Ref names an operation, to say more of it.
type Ref struct {
	b *Builder
	i int
}

// Call adds a system call.
func (b *Builder) Call(s Sys, args ...Arg) Ref { return b.Raw(sysTable[s].nr[b.p.Arch], args...) }

// Raw adds the system call with a number, which need not be in the table.
func (b *Builder) Raw(nr uint32, args ...Arg) Ref {
	op := Op{Nr: nr, Step: b.step}
	for i, a := range args {
		op.Kind |= a.kind << (2 * i)
		op.Args[i] = a.val
	}
	if b.room(cap(b.p.ops)-len(b.p.ops), 1) {
		b.p.ops = append(b.p.ops, op)
	}
	return Ref{b, len(b.p.ops) - 1}
}

// To keeps the result in s.
func (r Ref) To(s Slot) Ref {
	if !r.b.full {
		r.b.p.ops[r.i].Out = uint16(s) + 1
	}
	return r
}

// Tolerate lets the Program go on after these errors.
func (r Ref) Tolerate(errnos ...syscall.Errno) Ref {
	if r.b.full {
		return r
	}
	for _, e := range errnos {
		r.b.p.ops[r.i].Tol[e>>6] |= 1 << (e & 63)
	}
	return r
}

// TolerateAny lets the Program go on after any error.
func (r Ref) TolerateAny() Ref {
	if !r.b.full {
		r.b.p.ops[r.i].Tol = anyError
	}
	return r
}

var anyError = [2]uint64{math.MaxUint64, math.MaxUint64}

// Full makes a result that is not the third argument an error.
func (r Ref) Full() Ref {
	if !r.b.full {
		r.b.p.ops[r.i].Kind |= FlagFull
	}
	return r
}

// OnSuccess lets the Program go on behind the operation that will be added next when Here is called, if r succeeds.
func (r Ref) OnSuccess() Label { return Label{r, false} }

// OnTolerated is OnSuccess for errors that are tolerated.
func (r Ref) OnTolerated() Label { return Label{r, true} }

// Label is a jump that has no target yet.
type Label struct {
	r   Ref
	err bool
}

// Here sets the targets of jumps to the operation that is added next. The zero Label is not a jump.
func (b *Builder) Here(labels ...Label) {
	for _, l := range labels {
		if l.r.b == nil || b.full {
			continue
		}
		n := len(b.p.ops) - l.r.i - 1
		if n > math.MaxUint16 {
			panic("BUG: a jump in a program goes too far")
		}
		if l.err {
			b.p.ops[l.r.i].Err = uint16(n)
		} else {
			b.p.ops[l.r.i].OK = uint16(n)
		}
	}
}

// Jump skips, always.
func (b *Builder) Jump() Label { return b.Call(Jump).OnSuccess() }

// If jumps where the 32-bit word at p, masked, is value.
func (b *Builder) If(p Ptr, mask, value uint32) Label {
	return b.Call(Branch, p.Arg(), Int(mask), Int(value)).OnSuccess()
}

// Fail reports errno for the current step.
func (b *Builder) Fail(errno syscall.Errno) { b.Call(Fail, Int(uintptr(errno))) }

// Data adds bytes, aligned to 8.
func (b *Builder) Data(v []byte) Ptr {
	b.pad()
	off := Ptr(len(b.p.data))
	if b.room(cap(b.p.data)-len(b.p.data), len(v)) {
		b.p.data = append(b.p.data, v...)
	}
	return off
}

// Zero reserves n bytes of zeros, aligned to 8.
func (b *Builder) Zero(n int) Ptr {
	b.pad()
	off := Ptr(len(b.p.data))
	if b.room(cap(b.p.data)-len(b.p.data), n) {
		b.p.data = append(b.p.data, make([]byte, n)...)
	}
	return off
}

func (b *Builder) pad() {
	if n := -len(b.p.data) & 7; n > 0 {
		b.bytes("\x00\x00\x00\x00\x00\x00\x00"[:n])
	}
}

// String adds a string with its final zero.
func (b *Builder) String(s string) Arg {
	if s == "" {
		return Ptr(0).Arg()
	}
	return b.Concat(s)
}

// Concat adds a string made of several, with its final zero.
func (b *Builder) Concat(v ...string) Arg {
	off := Ptr(len(b.p.data))
	b.bytes(v...)
	b.bytes("\x00")
	return off.Arg()
}

// Repeat adds a string n times, with a final zero.
func (b *Builder) Repeat(s string, n int) Arg {
	off := Ptr(len(b.p.data))
	for range n {
		b.bytes(s)
	}
	b.bytes("\x00")
	return off.Arg()
}

// Text is a piece of data, and how long it is.
type Text struct {
	at Arg
	n  int
}

// Arg is where the text is.
func (t Text) Arg() Arg { return t.at }

// Len is how long it is.
func (t Text) Len() Arg { return Int(t.n) }

// Text adds text without a final zero.
func (b *Builder) Text(s string) Text {
	off := Ptr(len(b.p.data))
	b.bytes(s)
	return Text{off.Arg(), len(s)}
}

func (b *Builder) TextBytes(v []byte) Text { return Text{b.Data(v).Arg(), len(v)} }

// Number adds a number as a string.
func (b *Builder) Number(n uint64, base int) Arg {
	var digits [64]byte
	off := Ptr(len(b.p.data))
	text := strconv.AppendUint(digits[:0], n, base)
	if b.room(cap(b.p.data)-len(b.p.data), len(text)) {
		b.p.data = append(b.p.data, text...)
	}
	b.bytes("\x00")
	return off.Arg()
}

// Words adds 64-bit words.
func (b *Builder) Words(v ...uint64) Ptr {
	b.pad()
	off := Ptr(len(b.p.data))
	if b.room(cap(b.p.data)-len(b.p.data), 8*len(v)) {
		for _, w := range v {
			b.p.data = binary.NativeEndian.AppendUint64(b.p.data, w)
		}
	}
	return off
}

// Relocate marks the word at p plus 8 i as a pointer to q.
func (b *Builder) Relocate(p Ptr, i int, q Arg) {
	if !b.room(cap(b.p.rel)-len(b.p.rel), 1) {
		return
	}
	at := uint32(p) + 8*uint32(i)
	binary.NativeEndian.PutUint64(b.p.data[at:], q.val)
	b.p.rel = append(b.p.rel, at)
}

// Strings adds a null-terminated array of pointers to strings, as execve(2) takes.
func (b *Builder) Strings(v []string) Ptr {
	p := b.Zero(8 * (len(v) + 1))
	for i := range v {
		b.Relocate(p, i, b.String(v[i]))
	}
	return p
}

// Open is the flags argument of openat(2).
func (b *Builder) Open(f OpenFlag) Arg { return Arg{KindImm, f.bits(b.p.Arch)} }

// How is the struct open_how of openat2(2) and its size.
func (b *Builder) How(f OpenFlag, mode, resolve uint64) (how Ptr, size Arg) {
	return b.Words(f.bits(b.p.Arch), mode, resolve), Int(24)
}

// SetNFds says how many descriptors are passed, the status pipe included.
func (b *Builder) SetNFds(n int) { b.p.NFds = n }

// SetFlags sets the flags of clone3(2).
func (b *Builder) SetFlags(f uint64) { b.p.Flags = f }

// SetStage sets what is or'ed into the steps of reports.
func (b *Builder) SetStage(s uint32) { b.p.Stage = s }
