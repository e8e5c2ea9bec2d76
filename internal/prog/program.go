//go:build linux && !nsrun_image

package prog

import (
	"strings"
	"unsafe"
)

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

// Attaches reports whether an operation attaches a mount.
func (p *Program) Attaches(op int) bool {
	if op < 0 || op >= len(p.ops) {
		return false
	}
	call := p.call(&p.ops[op])
	return call == SysMoveMount || call == SysMount
}

// Len is the number of bytes that Layout writes.
func (p *Program) Len() int { return p.dataOff() + len(p.data) + 4*len(p.rel) }

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
