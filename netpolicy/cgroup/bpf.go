//go:build linux

package cgroup

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// What bpf(2) does, as far as it is needed. A library would read the object and try out the kernel's
// features at each start, which takes longer than all that is done here.

// code are the instructions of all programs.
//
//go:embed code.bin
var code string

type mapSpec struct {
	name             string
	kind, key, value uint32
	entries, flags   uint32
}

type programSpec struct {
	name         string
	kind, attach uint32
	begin, end   int // in code
	uses         []mapUse
}

// A mapUse says that an instruction names a map.
type mapUse struct{ at, of int }

const insnSize = 8

// bpf is bpf(2). What attr points to must be in fields that the garbage collector knows as pointers.
func bpf[T any](cmd uintptr, attr *T) (int, error) {
	for {
		r, _, e := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		switch e {
		case 0:
			return int(r), nil
		case unix.EAGAIN, unix.EINTR: // a signal came, perhaps one of the runtime's own
			continue
		}
		return -1, e
	}
}

// bpfName is a name as the kernel shows it.
func bpfName(s string) (name [16]byte) {
	copy(name[:15], s)
	return name
}

type bpfMap struct {
	fd  sys.FD
	key uint32 // size
}

// newMap makes a map; types is a descriptor of BTF for the one that needs it, else 0.
func newMap(spec *mapSpec, types int) (bpfMap, error) {
	attr := struct {
		kind, key, value, entries, flags, inner, node uint32
		name                                          [16]byte
		index, types, keyType, valueType, pad         uint32
	}{kind: spec.kind, key: spec.key, value: spec.value, entries: spec.entries, flags: spec.flags, name: bpfName(spec.name)}
	if types != 0 {
		attr.types, attr.keyType, attr.valueType = uint32(types), 1, 3
	}
	fd, err := bpf(unix.BPF_MAP_CREATE, &attr)
	return bpfMap{sys.FD(fd), spec.key}, err
}

// loadTypes loads the BTF that a map of kind SK_STORAGE must have: int for its key, and for its value
// as many 64-bit numbers as it takes.
func loadTypes(value uint32) (sys.FD, error) {
	const (
		kindInt, kindArray = 1 << 24, 3 << 24
		header             = 24
	)
	names := "\x00int\x00long\x00"
	types := []uint32{
		1, kindInt, 4, 32, // 1: int
		5, kindInt, 8, 64, // 2: long
		0, kindArray, 0, 2, 1, value / 8, // 3: long[value/8]
	}
	b := []byte{0x9f, 0xeb, 1, 0}
	for _, n := range []uint32{header, 0, uint32(4 * len(types)), uint32(4 * len(types)), uint32(len(names))} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, n := range types {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = append(b, names...)
	attr := struct {
		types, log              unsafe.Pointer
		size, logSize, logLevel uint32
		pad                     uint32
	}{types: unsafe.Pointer(&b[0]), size: uint32(len(b))}
	fd, err := bpf(unix.BPF_BTF_LOAD, &attr)
	return sys.FD(fd), err
}

// loadProgram has the kernel verify and compile a program. old is for kernels that refuse it else; the
// error has the last lines of what the verifier says then.
func loadProgram(spec *programSpec, maps *maps, old bool) (sys.FD, error) {
	text := []byte(code[spec.begin:spec.end])
	for _, use := range spec.uses {
		// BPF_PSEUDO_MAP_FD in the upper half of the byte with the registers.
		ins := text[insnSize*use.at:]
		ins[1] = ins[1]&0x0f | 1<<4
		binary.LittleEndian.PutUint32(ins[4:], uint32(maps[use.of].fd))
	}
	if old {
		older(text)
	}
	return verify(spec, text, old)
}

// verify loads a program without asking for a log, which costs time; if it is refused, and is to be
// explained, once more with one.
func verify(spec *programSpec, text []byte, explain bool) (sys.FD, error) {
	license := [1]byte{}
	attr := struct {
		kind, count    uint32
		code, license  unsafe.Pointer
		level, size    uint32
		log            unsafe.Pointer
		version, flags uint32
		name           [16]byte
		index, attach  uint32
	}{
		kind: spec.kind, count: uint32(len(text) / insnSize), code: unsafe.Pointer(&text[0]), license: unsafe.Pointer(&license),
		name: bpfName(spec.name), attach: spec.attach,
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, &attr)
	if !explain || err != unix.EINVAL && err != unix.EACCES {
		return sys.FD(fd), err // the verifier refuses by these; EPERM is a missing privilege
	}
	log := make([]byte, logSize)
	attr.level, attr.size, attr.log = 1, logSize, unsafe.Pointer(&log[0])
	if fd, lerr := bpf(unix.BPF_PROG_LOAD, &attr); lerr == nil {
		return sys.FD(fd), nil
	}
	return sys.None, &refusedError{errno: err.(unix.Errno), log: lastLines(log)}
}

// logSize holds the log of the largest program.
const logSize = 1 << 20

type refusedError struct {
	errno unix.Errno
	log   string // its last lines; empty: it says nothing
}

func (e *refusedError) Error() string {
	if e.log == "" {
		return e.errno.Error()
	}
	return e.errno.Error() + "; the verifier: " + e.log
}

func (e *refusedError) Unwrap() error { return e.errno }

// lastLines are the last lines of the verifier's log, without what it counts, in one line.
func lastLines(log []byte) string {
	const most = 4
	if end := bytes.IndexByte(log, 0); end >= 0 {
		log = log[:end]
	}
	lines := slices.Collect(strings.Lines(strings.TrimSpace(string(log))))
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "processed ") })
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}

// older is for kernels that do not let all of these programs choose the error (before 5.18), and ask
// who is calling (before 6.1): what is refused is EPERM then, and no report has a process id.
func older(text []byte) {
	const (
		call, loadWide = 0x85, 0x18
		setRetval      = 187
		currentPid     = 14
		coarseTime     = 160
		time           = 5
	)
	for i := 0; i < len(text); i += insnSize {
		ins := text[i : i+insnSize]
		switch n := binary.LittleEndian.Uint32(ins[4:]); {
		case ins[0] == loadWide:
			i += insnSize // its second half
		case ins[0] == call && (n == setRetval || n == currentPid):
			copy(ins, "\xb7\x00\x00\x00\x00\x00\x00\x00") // r0 = 0
		case ins[0] == call && n == coarseTime: // 5.11
			binary.LittleEndian.PutUint32(ins[4:], time)
		}
	}
}

// attach attaches a program to a cgroup, beside others.
func attach(cgroup int, program sys.FD, kind uint32) error {
	attr := struct{ target, program, kind, flags uint32 }{uint32(cgroup), uint32(program), kind, unix.BPF_F_ALLOW_MULTI}
	_, err := bpf(unix.BPF_PROG_ATTACH, &attr)
	return err
}

// element is the attribute of calls for one element.
type element struct {
	fd, _      uint32
	key, value unsafe.Pointer
	_          uint64 // flags
}

func put[K, V any](m bpfMap, key *K, value *V) error {
	_, err := bpf(unix.BPF_MAP_UPDATE_ELEM, &element{fd: uint32(m.fd), key: unsafe.Pointer(key), value: unsafe.Pointer(value)})
	return err
}

func lookup[K, V any](m bpfMap, key *K, value *V) error {
	_, err := bpf(unix.BPF_MAP_LOOKUP_ELEM, &element{fd: uint32(m.fd), key: unsafe.Pointer(key), value: unsafe.Pointer(value)})
	return err
}

// next finds the key after another one; after nil the first one.
func next[K any](m bpfMap, after, found *K) error {
	_, err := bpf(unix.BPF_MAP_GET_NEXT_KEY, &element{fd: uint32(m.fd), key: unsafe.Pointer(after), value: unsafe.Pointer(found)})
	return err
}

// remove deletes an element; that it is not there is no error.
func remove[K any](m bpfMap, key *K) error {
	_, err := bpf(unix.BPF_MAP_DELETE_ELEM, &element{fd: uint32(m.fd), key: unsafe.Pointer(key)})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return err
}

// batch is the attribute of calls for many elements.
type batch struct {
	_, _         unsafe.Pointer // where it begins and ends, for reading
	keys, values unsafe.Pointer
	count, fd    uint32
	_, _         uint64 // flags
}

// noBatches says that a kernel, or a kind of map, has no calls for many elements: tries have them since
// Linux 5.13. Its number for that is one that programs were not meant to see.
func noBatches(err error) bool {
	const ENOTSUPP = unix.Errno(524)
	return err == ENOTSUPP || err == unix.ENOTSUP || err == unix.EINVAL
}

// putAll adds elements. With an error any of them may be there.
func putAll[K, V any](m bpfMap, keys []K, values []V) error {
	if len(keys) == 0 {
		return nil
	}
	attr := batch{keys: unsafe.Pointer(&keys[0]), values: unsafe.Pointer(&values[0]), count: uint32(len(keys)), fd: uint32(m.fd)}
	_, err := bpf(unix.BPF_MAP_UPDATE_BATCH, &attr)
	if !noBatches(err) {
		return err
	}
	for i := range keys {
		if err := put(m, &keys[i], &values[i]); err != nil {
			return err
		}
	}
	return nil
}

func removeAll[K any](m bpfMap, keys []K) error {
	for len(keys) > 0 {
		attr := batch{keys: unsafe.Pointer(&keys[0]), count: uint32(len(keys)), fd: uint32(m.fd)}
		_, err := bpf(unix.BPF_MAP_DELETE_BATCH, &attr)
		if err == nil {
			return nil
		}
		alone := len(keys)
		if !noBatches(err) { // else the count is what it was
			keys = keys[min(int(attr.count), len(keys)-1):]
			alone = 1 // a batch ends at the first one that is not there
		}
		for i := range alone {
			if err := remove(m, &keys[i]); err != nil {
				return err
			}
		}
		keys = keys[alone:]
	}
	return nil
}
