//go:build linux

package reexec

import (
	"bytes"
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(closingEnv) != "" {
		os.Exit(closing())
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// TestChildFollowsItsRules: what runs in the clone never grows the stack, is not
// watched by the race detector, and uses nothing of the language that could
// allocate, lock or panic by design.
func TestChildFollowsItsRules(t *testing.T) {
	fset := token.NewFileSet()
	for _, name := range []string{"child.go", "pid1.go", "target.go", "instead.go", "lookup.go", "clone.go", "serve.go"} {
		follows(t, fset, name)
	}
}

func follows(t *testing.T, fset *token.FileSet, name string) {
	t.Helper()
	f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		switch imp.Path.Value {
		case `"syscall"`, `"unsafe"`, `"github.com/nsrun/nsrun/internal/prog"`:
		default:
			t.Errorf("imports %s", imp.Path.Value)
		}
	}
	functions := 0
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		functions++
		if fn.Body == nil { // assembly
			continue
		}
		var directives []string
		if fn.Doc != nil {
			for _, c := range fn.Doc.List {
				directives = append(directives, c.Text)
			}
		}
		for _, want := range []string{"//go:nosplit", "//go:norace"} {
			if !slices.Contains(directives, want) {
				t.Errorf("%s lacks %s", fn.Name.Name, want)
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			bad := ""
			switch n := n.(type) {
			case *ast.GoStmt, *ast.DeferStmt, *ast.SelectStmt, *ast.SendStmt, *ast.FuncLit, *ast.MapType, *ast.ChanType, *ast.RangeStmt:
				bad = "a statement or type that needs the runtime"
			case *ast.CallExpr:
				switch fun := n.Fun.(type) {
				case *ast.Ident:
					switch fun.Name {
					case "append", "make", "new", "panic", "print", "println", "string", "copy", "delete", "recover":
						bad = "a call of " + fun.Name
					}
				case *ast.SelectorExpr:
					// Of other packages only what is known to be a bare system call.
					if pkg, ok := fun.X.(*ast.Ident); ok && pkg.Name == "syscall" {
						switch fun.Sel.Name {
						case "RawSyscall", "RawSyscall6", "Errno":
						default:
							bad = "a call of syscall." + fun.Sel.Name
						}
					}
				}
			}
			if bad != "" {
				t.Errorf("%s: %s has %s", fset.Position(n.Pos()), fn.Name.Name, bad)
			}
			return true
		})
	}
	if functions < 3 {
		t.Errorf("only %d functions: are they in another file?", functions)
	}
}

// TestVforkForBoth: the clone that shares memory is written for each
// architecture, with its number of clone(2), and without a frame.
func TestVforkForBoth(t *testing.T) {
	for arch, number := range map[string]string{"amd64": "$56", "arm64": "$220"} {
		b, err := os.ReadFile("vfork_" + arch + ".s")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16", number, "$0x4111"} {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s: no %s", arch, want)
			}
		}
	}
}

// program is a laid-out Program that does nothing, for n descriptors.
func program(n int) []byte {
	b := prog.New(prog.Native())
	b.SetNFds(n)
	b.Step("exec", "/x")
	b.Call(prog.SysExecve, b.String("/x"), b.Strings([]string{"x", "y"}).Arg(), b.Strings(nil).Arg())
	return b.Program().Block()
}

func spoil(block []byte, field uintptr, v uint32) []byte {
	c := words(block)
	binary.NativeEndian.PutUint32(c[field:], v)
	return c
}

// words is a copy of b that is aligned to 8.
func words(b []byte) []byte {
	w := make([]uint64, len(b)/8+1)
	c := unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 8*len(w))[:len(b)]
	copy(c, b)
	return c
}

var header0 prog.Header

// TestPrepareRefuses: a launcher checks a Program against what it received with it.
func TestPrepareRefuses(t *testing.T) {
	good := program(2)
	for _, c := range []struct {
		name  string
		block []byte
		fds   []int
	}{
		{"no block", words(make([]byte, 8))[:0], []int{0, 1}},
		{"half a header", words(good[:prog.HeaderSize/2]), []int{0, 1}},
		{"truncated", words(good[:len(good)-8]), []int{0, 1}},
		{"magic", spoil(good, unsafe.Offsetof(header0.Magic), 1), []int{0, 1}},
		{"size", spoil(good, unsafe.Offsetof(header0.Size), 1<<30), []int{0, 1}},
		{"too few descriptors", words(good), []int{0}},
		{"too many descriptors", words(good), []int{0, 1, 2}},
	} {
		if pid, errno := Spawn(c.block, c.fds); errno != syscall.EBADMSG || pid != 0 {
			t.Errorf("%s: pid %d, %v", c.name, pid, errno)
		}
	}
}

// received sends one message to receive and returns what it made of it.
func received(t testing.TB, message []byte, fds ...int) unsafe.Pointer {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(p[0], message, rights, nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Shutdown(p[0], unix.SHUT_WR)
	before := open()
	got := receive(uintptr(p[1]), 77, 0)
	// receive leaves descriptors open: it runs where install closes them.
	for fd, is := range open() {
		if is && !before[fd] {
			unix.Close(fd)
		}
	}
	return got
}

// open is which descriptors are.
func open() (fds [1024]bool) {
	for fd := range fds {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		fds[fd] = err == nil
	}
	return fds
}

// errnoOf is the errno that receive returned as an address, 0 if it was none.
func errnoOf(p unsafe.Pointer) syscall.Errno {
	if uintptr(p) < 4096 {
		return syscall.Errno(uintptr(p))
	}
	return 0
}

func TestReceive(t *testing.T) {
	testenv.Leaks(t)
	good := program(3)
	base := received(t, good, 1, 2)
	if base == nil || errnoOf(base) != 0 {
		t.Fatalf("errno %v", errnoOf(base))
	}
	h := header(base)
	if last := *word(base, uintptr(h.Fds)+8); last != 77 {
		t.Errorf("the last descriptor is %d, not the status pipe", last)
	}
	// Pointers in the data are addresses now.
	o := (*prog.Op)(unsafe.Add(base, uintptr(h.Ops)))
	argv := (*[3]uintptr)(unsafe.Add(base, uintptr(o.Args[1])))
	if got := *(*[2]byte)(pointer(argv[1])); got != [2]byte{'y', 0} || argv[2] != 0 {
		t.Errorf("argument %q, then %#x", got, argv[2])
	}
}

func TestReceiveRefuses(t *testing.T) {
	testenv.Leaks(t)
	good := program(3)
	for _, c := range []struct {
		name    string
		message []byte
		fds     []int
	}{
		{"one byte", []byte{1}, []int{1, 2}},
		{"half a header", good[:prog.HeaderSize/2], []int{1, 2}},
		{"magic", spoil(good, 0, 1), []int{1, 2}},
		{"truncated", good[:len(good)-8], []int{1, 2}},
		{"no descriptors", good, nil},
		{"too few descriptors", good, []int{1}},
		{"too many descriptors", good, []int{1, 2, 1}},
		{"no room for the status pipe", spoil(good, unsafe.Offsetof(header0.NFds), 0), nil},
		{"many descriptors", spoil(good, unsafe.Offsetof(header0.NFds), 1<<20), []int{1}},
		{"header only, without a file", good[:prog.HeaderSize], []int{1, 2}},
		{"header only, file too short", good[:prog.HeaderSize], []int{1, 2, nullFile(t)}},
	} {
		if p := received(t, c.message, c.fds...); errnoOf(p) != syscall.EBADMSG {
			t.Errorf("%s: %v, %p", c.name, errnoOf(p), p)
		}
	}
}

func nullFile(t testing.TB) int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestReceiveFile: a Program too large for a message comes as a file.
func TestReceiveFile(t *testing.T) {
	testenv.Leaks(t)
	b := prog.New(prog.Native())
	b.SetNFds(2)
	b.Zero(InlineMax)
	b.Call(prog.SysExecve, b.String("/far"), b.Strings([]string{"behind it all"}).Arg(), prog.Null)
	block := b.Program().Block()
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, block, 0); err != nil {
		t.Fatal(err)
	}
	base := received(t, block[:prog.HeaderSize], 1, fd)
	if base == nil || errnoOf(base) != 0 {
		t.Fatalf("errno %v", errnoOf(base))
	}
	o := (*prog.Op)(unsafe.Add(base, uintptr(header(base).Ops)))
	if got := *(*[4]byte)(unsafe.Add(base, uintptr(o.Args[0]))); got != [4]byte{'/', 'f', 'a', 'r'} {
		t.Errorf("path %q", got)
	}
}

// TestReceiveEnd: a closed socket is not an error, and no Program.
func TestReceiveEnd(t *testing.T) {
	testenv.Leaks(t)
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p[0])
	defer unix.Close(p[1])
	if got := receive(uintptr(p[1]), 77, 0); got != nil {
		t.Errorf("got %p", got)
	}
}

// TestReceiveMessage is the launcher's side: two descriptors with each block.
func TestReceiveMessage(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	if p[1] != ControlFd {
		// The launcher's end has a fixed number.
		if old, err := unix.FcntlInt(ControlFd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			defer func() { unix.Dup3(old, ControlFd, unix.O_CLOEXEC); unix.Close(old) }()
		} else {
			defer unix.Close(ControlFd)
		}
		if err := unix.Dup3(p[1], ControlFd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		unix.Close(p[1])
	}
	mem := make([]uint64, (256+InlineMax)/8)
	base := unsafe.Pointer(&mem[0])
	if err := unix.Sendmsg(p[0], []byte("hello"), unix.UnixRights(1, 2), nil, 0); err != nil {
		t.Fatal(err)
	}
	n, count := receiveFirst(uintptr(base), 256)
	if got := unsafe.String((*byte)(unsafe.Add(base, 256)), n); got != "hello" || count != 2 {
		t.Fatalf("%q, %d descriptors", got, count)
	}
	for i := range uintptr(2) {
		if err := unix.Close(int(*word(base, 16+4*i))); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Sendmsg(p[0], []byte("hello"), nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	if n, count := receiveFirst(uintptr(base), 256); n != 5 || count != 0 {
		t.Errorf("without descriptors: %d bytes, %d descriptors", n, count)
	}
}

// TestTextComesWithItsReport: who cloned a process reports to the same pipe meanwhile, so a text and the report that
// says how long it is are one write. A pipe in packet mode (O_DIRECT in pipe(2)) shows what was written at once.
func TestTextComesWithItsReport(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_DIRECT); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	const found = "another"
	want, text := []byte("this\x00"), []byte(found)
	if e := same(uintptr(unsafe.Pointer(&want[0])), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), uintptr(p[1])); e != syscall.EEXIST {
		t.Errorf("got %v", e)
	}
	b := make([]byte, 4<<10)
	n, err := unix.Read(p[0], b)
	if size := int(prog.RecordSize); err != nil || n != size+len(found) || string(b[size:n]) != found {
		t.Errorf("%q, %v", b[:max(n, 0)], err)
	}
	runtime.KeepAlive(want)
	runtime.KeepAlive(text)
}
