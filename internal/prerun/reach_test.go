//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/nsrun/nsrun/internal/testenv"
)

// harmless are functions of the runtime that need nothing of it: they move and compare memory, or are called where the
// stack ends, which it does not here, or where the garbage collector runs.
var harmless = []string{
	"internal/runtime/syscall/linux.Syscall6",
	"runtime.cmpstring", "runtime.memequal", "runtime.memequal_varlen", "runtime.memmove", "runtime.memclrNoHeapPointers", "runtime.decoderune",
	"runtime.strequal", "runtime.strhash", "runtime.duffzero", "runtime.duffcopy",
	"runtime.morestack_noctxt", "runtime.morestack",
	"runtime.gcWriteBarrier1", "runtime.gcWriteBarrier2", "runtime.gcWriteBarrier3", "runtime.gcWriteBarrier4",
	"runtime.gcWriteBarrier5", "runtime.gcWriteBarrier6", "runtime.gcWriteBarrier7", "runtime.gcWriteBarrier8",
	"runtime.wbMove", "runtime.wbZero", "runtime.memclrHasPointers", "runtime.typedslicecopy", "runtime.typedmemmove",
	"runtime.nanotime1",
}

// behind are functions that are only called in branches that the entry point does not take: in code that the usual way
// also uses, for a Builder that is not fixed, for steps that mountprog's function simple refuses, for options that are
// not instant, and for mistakes that would panic. TestNothingIsAllocated and TestRandomLines run this code, and count
// allocations. Before you add a name here, look at its callers. (runtime.mallocgc and its callers are such functions,
// too.)
var behind = []string{
	"runtime.concatstring2", "runtime.concatstring3", "runtime.convT64", "runtime.convTstring", "runtime.slicebytetostring",
	"runtime.growslice", "runtime.makeslice", "runtime.newobject", "runtime.moveSliceNoCap",
	"runtime.makemap", "runtime.makemap_small", "runtime.mapaccess1_fast64", "runtime.mapaccess1_faststr", "runtime.mapaccess2",
	"runtime.mapaccess2_faststr", "runtime.mapassign", "runtime.mapassign_fast64", "runtime.mapassign_faststr", "runtime.rand",
	"runtime.gopanic", "runtime.panicBounds", "runtime.panicdottypeE", "runtime.panicmakeslicelen", "runtime.panicrangestate",
	"runtime.panicunsafeslicelen", "runtime.panicunsafeslicenilptr", "runtime.panicunsafestringlen", "runtime.panicunsafestringnilptr",
	"runtime.deferreturn", "runtime.walltime", "runtime.entersyscall", "runtime.exitsyscall", "runtime.semacquire1",
}

// TestReach reads from the linked program which functions the entry point reaches by calls and jumps, and which
// functions of the runtime they call. If a new version of Go, or a change here, calls others, look at those first.
func TestReach(t *testing.T) {
	testenv.Once(t)
	testenv.NeedCheckout(t)
	archs := []string{runtime.GOARCH}
	if testenv.Long() {
		archs = []string{"amd64", "arm64"}
	}
	for _, arch := range archs {
		p := link(t, arch)
		seen, called := p.reach("nsrun_early")
		if len(seen) < 100 || seen["main.main"] {
			t.Errorf("%s: %d functions are reached; main: %v", arch, len(seen), seen["main.main"])
		}
		for _, name := range slices.Sorted(maps.Keys(called)) {
			if !slices.Contains(harmless, name) && !slices.Contains(behind, name) && !strings.HasPrefix(name, "runtime.mallocgc") {
				t.Errorf("%s: the entry point reaches %s, from %s", arch, name, called[name])
			}
		}
		// What runs in the clone has a stack of the kernel's, and the g of the process that waits.
		const pkg = "github.com/nsrun/nsrun/internal/prerun."
		for _, from := range []string{"begin", "child", "rest"} {
			_, called := p.reach(pkg + from)
			for _, name := range []string{"internal/runtime/syscall/linux.Syscall6", "runtime.panicBounds"} {
				delete(called, name)
			}
			if len(called) > 0 {
				t.Errorf("%s: %s reaches %v", arch, from, called)
			}
		}
		// Control: what calls the runtime is found.
		if _, called := p.reach("main.main"); called["runtime.newobject"] == "" || called["runtime.growslice"] == "" {
			t.Errorf("%s: main.main reaches %d functions of the runtime", arch, len(called))
		}
	}
}

// linked is the code of a program.
type linked struct {
	arm   bool
	code  map[string][]byte
	at    map[string]uint64
	names map[uint64]string
}

// link builds the nsrun command for an architecture, and reads it.
func link(t *testing.T, arch string) *linked {
	t.Helper()
	file := filepath.Join(testenv.Dir(t), "nsrun")
	build(t, file, arch, "-ldflags=-E nsrun_early")
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	data, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	p := &linked{arm: arch == "arm64", code: map[string][]byte{}, at: map[string]uint64{}, names: map[uint64]string{}}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value >= text.Addr && s.Value+s.Size <= text.Addr+text.Size {
			p.code[s.Name] = data[s.Value-text.Addr:][:s.Size]
			p.at[s.Name], p.names[s.Value] = s.Value, s.Name
		}
	}
	return p
}

// reach follows calls from a function, but not into the runtime. It returns the runtime's functions with their callers.
func (p *linked) reach(from string) (seen map[string]bool, called map[string]string) {
	seen, called = map[string]bool{from: true}, map[string]string{}
	for todo := []string{from}; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		p.calls(name, func(to string) {
			switch plain := strings.TrimSuffix(to, ".abi0"); {
			case strings.HasPrefix(to, "_rt0_"): // the usual way
			case strings.HasPrefix(to, "runtime."), strings.HasPrefix(to, "internal/runtime/"):
				called[plain] = name
			case !seen[to]:
				seen[to] = true
				todo = append(todo, to)
			}
		})
	}
	return seen, called
}

// calls calls f with the functions to which a function has calls or jumps.
func (p *linked) calls(name string, f func(to string)) {
	code, at := p.code[name], p.at[name]
	if p.arm {
		for i := 0; i+4 <= len(code); i += 4 {
			w := binary.LittleEndian.Uint32(code[i:])
			if w>>26 == 0b100101 || w>>26 == 0b000101 { // BL, B: 26 bits, in words
				if to := p.names[at+uint64(i)+uint64(int64(int32(w<<6)>>6)*4)]; to != "" && to != name {
					f(to)
				}
			}
		}
		return
	}
	for i := 0; i < len(code); {
		in, err := x86asm.Decode(code[i:], 64)
		if err != nil { // data, or an instruction that the library does not know
			i++
			continue
		}
		i += in.Len
		if to, ok := in.Args[0].(x86asm.Rel); ok {
			if to := p.names[at+uint64(i)+uint64(int64(to))]; to != "" && to != name {
				f(to)
			}
		}
	}
}
