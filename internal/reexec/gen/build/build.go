// Package build builds the image that package reexec executes; the program in gen and the tests call it.
package build

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Architectures are those that there is an image for.
var Architectures = []string{"amd64", "arm64"}

// entry is the symbol of the entry point.
const entry = "nsrun_image"

// syscallSource is all of package syscall but its tables of numbers and types.
const syscallSource = `package syscall

import "internal/runtime/syscall/linux"

type Errno uintptr
type Signal int

//go:nosplit
func RawSyscall6(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err Errno) {
	r1, r2, e := linux.Syscall6(trap, a1, a2, a3, a4, a5, a6)
	return r1, r2, Errno(e)
}

//go:nosplit
func RawSyscall(trap, a1, a2, a3 uintptr) (r1, r2 uintptr, err Errno) {
	return RawSyscall6(trap, a1, a2, a3, 0, 0, 0)
}
`

// unreachable is what a function that the linker always keeps does in package runtime.
const unreachable = `throw("unreachable method called. linker bug?")`

// linked links the image with its symbols, and returns the file's name in dir.
func linked(module, arch, dir string) (string, error) {
	overlay, err := overlay(arch, dir)
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "image")
	c := exec.Command("go", "build", "-tags", "nsrun_image", "-overlay", overlay, "-trimpath", "-buildvcs=false",
		"-ldflags=-buildid= -w -E "+entry, "-o", out, "./internal/reexec/image")
	c.Dir = module
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GODEBUG=", "GOTOOLCHAIN=local", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image for %s: %w\n%s", arch, err, text)
	}
	return out, nil
}

// overlay writes what is replaced in the standard library, and the list of it.
func overlay(arch, dir string) (name string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	replace := make(map[string]string)
	put := func(target, content string) error {
		file := filepath.Join(dir, strings.ReplaceAll(filepath.Base(target), ".go", ".txt"))
		replace[target] = file
		return os.WriteFile(file, []byte(content), 0o600)
	}
	iface := filepath.Join(src, "runtime", "iface.go")
	text, err := os.ReadFile(iface)
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), unreachable) != 1 {
		return "", fmt.Errorf("%s is not as expected: %s", iface, unreachable)
	}
	if err := put(iface, strings.Replace(string(text), unreachable, "for {\n\t}", 1)); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(src, "syscall", "*.[gs]*"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		base := filepath.Base(file)
		if ext := filepath.Ext(base); ext != ".go" && ext != ".s" || base == "z" ||
			base == "zerrors_linux_"+arch+".go" || base == "zsysnum_linux_"+arch+".go" || base == "ztypes_linux_"+arch+".go" {
			continue
		}
		replace[file] = "" // it is not there
	}
	if err := put(filepath.Join(src, "syscall", "syscall.go"), syscallSource); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

// Image is the image's bytes, and the names of the functions in it; module is this module's
// directory.
func Image(module, arch string) (image []byte, functions []string, err error) {
	dir, err := os.MkdirTemp("", "nsrun-image-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	name, err := linked(module, arch, dir)
	if err != nil {
		return nil, nil, err
	}
	file, err := elf.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			functions = append(functions, s.Name)
		}
	}
	image, err = pack(file)
	return image, functions, err
}

// pack is an ELF file with nothing but the code, its constants (tables of jumps), and a place
// for its variables: no symbols, no sections, and none of the tables that the Go runtime
// would read. Variables that do not begin as zero would be lost, and are refused.
func pack(file *elf.File) ([]byte, error) {
	text, constants := file.Section(".text"), file.Section(".rodata")
	if text == nil || constants == nil || constants.Addr < text.Addr+text.Size {
		return nil, errors.New("no code")
	}
	code, err := text.Data()
	if err != nil {
		return nil, err
	}
	data, err := constants.Data()
	if err != nil {
		return nil, err
	}
	code = append(append(code, make([]byte, constants.Addr-text.Addr-text.Size)...), data...)
	symbols, err := file.Symbols()
	if err != nil {
		return nil, err
	}
	begin, end := ^uint64(0), uint64(0) // of the variables
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_WRITE == 0 || s.Size == 0 || strings.HasPrefix(s.Name, ".go.") {
			continue
		}
		begin, end = min(begin, s.Addr), max(end, s.Addr+s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if data, err = s.Data(); err != nil {
			return nil, err
		}
		for _, sym := range symbols {
			if sym.Name == "runtime.lastmoduledatap" && sym.Value-s.Addr < s.Size {
				clear(data[sym.Value-s.Addr:][:sym.Size]) // which only the runtime reads
			}
		}
		if len(bytes.Trim(data, "\x00")) > 0 {
			return nil, fmt.Errorf("there are variables that are not zero, in %s: %x", s.Name, data)
		}
	}
	page := uint64(4 << 10)
	if file.Machine == elf.EM_AARCH64 {
		page = 64 << 10 // the largest that kernels are built for
	}
	begin -= begin % page // older kernels map it from the next page on
	const header, size, entries = 64, 56, 3
	off := text.Addr % page
	if off < header+size*entries {
		off += page
	}
	parts := [entries]elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: off, Vaddr: text.Addr, Filesz: uint64(len(code)), Memsz: uint64(len(code)), Align: page},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Vaddr: begin, Memsz: end - begin, Align: page},
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
	}
	if begin < text.Addr+uint64(len(code)) {
		return nil, fmt.Errorf("the code is at %#x, the variables are at %#x", text.Addr, begin)
	}
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(file.Machine), Version: uint32(elf.EV_CURRENT), Entry: file.Entry,
		Phoff: header, Ehsize: header, Phentsize: size, Phnum: uint16(len(parts)), Shentsize: 64,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	for _, v := range []any{h, parts} {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			return nil, err
		}
	}
	out.Write(make([]byte, parts[0].Off-uint64(out.Len())))
	out.Write(code)
	return out.Bytes(), nil
}
