//go:build linux && !nsrun_image

package prog

import (
	"sync"
	"unsafe"
)

// A start that allocated its large Program anew, and its copy for the socket, would make the garbage collector run
// twice as often.

var (
	spareBuilders sync.Pool // of *Builder
	spareBlocks   sync.Pool // of *[]uint64
)

// mostSpare is how many operations, or words of a block, are kept: what a thousand mounts take is not needed often.
const mostSpare = 32 << 10

// Spare is New for a large Program. It uses the memory of one that was released, if there is one.
func Spare(a Arch) *Builder {
	b, ok := spareBuilders.Get().(*Builder)
	if !ok {
		b = New(a)
		b.Grow(512, 16<<10)
		return b
	}
	b.begin(a)
	return b
}

// Release gives the memory of a Program back, which nobody may use afterwards.
func (b *Builder) Release() {
	p := &b.p
	if b.fixed || cap(p.ops) > mostSpare {
		return
	}
	clear(p.Steps) // they hold strings
	*b = Builder{p: Program{ops: p.ops[:0], data: p.data[:0], rel: p.rel[:0], Steps: p.Steps[:0]}, free: b.free[:0]}
	spareBuilders.Put(b)
}

// Use calls use with p laid out in memory that is used again afterwards.
func (p *Program) Use(use func(block []byte) error) error {
	words, _ := spareBlocks.Get().(*[]uint64)
	if n := (p.Len() + 7) / 8; words == nil || len(*words) < n {
		words = new([]uint64)
		*words = make([]uint64, max(n, 8<<10))
	}
	block := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*words))), p.Len())
	p.Layout(block)
	err := use(block)
	if len(*words) <= mostSpare {
		spareBlocks.Put(words)
	}
	return err
}
