//go:build linux

package prog_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// TestLayout follows the pointers of a block as the child does.
func TestLayout(t *testing.T) {
	b := prog.New(prog.Native())
	b.SetNFds(3)
	b.SetFlags(0x1234)
	b.SetStage(1 << 31)
	s := b.Slot()
	argv := b.Strings([]string{"a", "", "long enough to need padding"})
	b.Call(prog.SysExecve, b.String("/x"), argv.Arg(), s.Arg()).To(s)
	p := b.Program()
	block := p.Block()
	h := (*prog.Header)(unsafe.Pointer(&block[0]))
	if len(block) != p.Len() || int(h.Size) != p.Len() || h.Magic != prog.Magic {
		t.Fatalf("size %d, length %d, header %+v", len(block), p.Len(), h)
	}
	if h.NFds != 3 || h.Flags != 0x1234 || h.Stage != 1<<31 || h.NOps != 1 || h.NSlots != 1 {
		t.Errorf("header %+v", h)
	}
	for _, off := range []uint32{h.Slots, h.Ops, h.Data} {
		if off%8 != 0 {
			t.Errorf("offset %d is not aligned", off)
		}
	}
	text := func(off uint64) string {
		rest := block[off:]
		return string(rest[:bytes.IndexByte(rest, 0)])
	}
	o := (*prog.Op)(unsafe.Pointer(&block[h.Ops]))
	if got := text(o.Args[0]); got != "/x" {
		t.Errorf("path %q", got)
	}
	if o.Kind != prog.KindPtr|prog.KindPtr<<2|prog.KindSlot<<4 || o.Args[2] != 0 || o.Out != 1 {
		t.Errorf("operation %+v", o)
	}
	var args []string
	var places []uint32
	for at := o.Args[1]; binary.NativeEndian.Uint64(block[at:]) != 0; at += 8 {
		places = append(places, uint32(at))
		args = append(args, text(binary.NativeEndian.Uint64(block[at:])))
	}
	if want := []string{"a", "", "long enough to need padding"}; !slices.Equal(args, want) {
		t.Errorf("arguments %q, want %q", args, want)
	}
	// Every pointer in the data is in the list of relocations.
	rel := unsafe.Slice((*uint32)(unsafe.Pointer(&block[h.Rel])), h.NRel)
	if !slices.Equal(rel, places) {
		t.Errorf("relocations at %v, want %v", rel, places)
	}
	// A second layout is the same: Layout does not use up the Program.
	if !bytes.Equal(block, p.Block()) {
		t.Error("two layouts differ")
	}
}

// TestSlots: a slot that was closed is used again, a block has room for all.
func TestSlots(t *testing.T) {
	b := prog.New(prog.AMD64)
	first, second := b.Slot(), b.Slot()
	b.Close(first)
	if again := b.Slot(); again != first {
		t.Errorf("slot %d, want %d", again, first)
	}
	if third := b.Slot(); third == first || third == second {
		t.Errorf("slot %d is in use", third)
	}
	block := b.Program().Block()
	if h := (*prog.Header)(unsafe.Pointer(&block[0])); h.NSlots != 3 || h.Ops-h.Slots != 24 {
		t.Errorf("header %+v", h)
	}
}

// TestLimits: what an operation has no room for is not cut off.
func TestLimits(t *testing.T) {
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "BUG:") {
				t.Errorf("%s: %q", what, s)
			}
		}()
		f()
	}
	for _, n := range []int{math.MaxUint16, math.MaxUint16 + 1} {
		b := prog.New(prog.AMD64)
		skip := b.Jump()
		for range n {
			b.Call(prog.SysSetsid)
		}
		if n > math.MaxUint16 {
			panics("a jump", func() { b.Here(skip) })
		} else {
			b.Here(skip)
		}
	}
	b := prog.New(prog.AMD64)
	for range math.MaxUint16 {
		b.Call(prog.SysUmask).To(b.Slot())
	}
	panics("slots", func() { b.Slot() })
}

// TestSizes: blocks go from one process to another of the same program only, but
// their layout is what the child's unsafe arithmetic is about.
func TestSizes(t *testing.T) {
	if prog.OpSize != 80 || prog.HeaderSize%8 != 0 || prog.RecordSize != 16 {
		t.Errorf("operation %d, header %d, record %d bytes", prog.OpSize, prog.HeaderSize, prog.RecordSize)
	}
}

// TestSpare: a Program in memory that another one had is the same as in new memory.
func TestSpare(t *testing.T) {
	emit := func(b *prog.Builder, text string, n int) *prog.Program {
		for range n {
			b.Step("bind", text)
			s := b.Slot()
			b.Call(prog.SysOpenat, b.String(text), b.Strings([]string{text, "x"}).Arg()).To(s).TolerateAny()
			b.Close(s)
		}
		return b.Program()
	}
	large := prog.Spare(prog.Native())
	large.SetNFds(7)
	large.SetFlags(1)
	large.Mount(3)
	want := emit(large, "a long text that is not in the second one", 900).Block()
	if err := large.Program().Use(func(block []byte) error {
		if !bytes.Equal(block, want) {
			t.Error("the first one differs")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	large.Release()
	fresh, again := emit(prog.New(prog.Native()), "b", 5), emit(prog.Spare(prog.Native()), "b", 5)
	if !slices.Equal(again.Steps, fresh.Steps) {
		t.Errorf("steps %v, want %v", again.Steps, fresh.Steps)
	}
	_ = again.Use(func(block []byte) error {
		if !bytes.Equal(block, fresh.Block()) {
			t.Error("the second one differs")
		}
		return nil
	})
}
