//go:build linux

package renames

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// What a caller hands over is hostile: numbers of registers, and names in its memory. Here the caller is this process.

// TestParse: of each argument as much is taken as the kernel takes, from the place where the call has it.
func TestParse(t *testing.T) {
	const all = math.MaxUint64
	args := [6]uint64{0xffffffff_00000003, 0x1000, 0xffffffff_ffffff9c, all, 0xabcdef12_00000007, all}
	for nr, want := range map[int32]call{
		unix.SYS_RENAMEAT2: {dir: [2]int32{3, unix.AT_FDCWD}, path: [2]uint64{0x1000, all}, flags: 7},
		unix.SYS_LINKAT:    {dir: [2]int32{3, unix.AT_FDCWD}, path: [2]uint64{0x1000, all}, flags: 7},
		unix.SYS_RENAMEAT:  {dir: [2]int32{3, unix.AT_FDCWD}, path: [2]uint64{0x1000, all}},
	} {
		want.id, want.pid = 9, 8
		if got := parse(&notify.Notification{ID: 9, PID: 8, NR: nr, Args: args}); got != want {
			t.Errorf("call %d: %+v, want %+v", nr, got, want)
		}
	}
	for _, nr := range oldCalls {
		want := call{dir: [2]int32{unix.AT_FDCWD, unix.AT_FDCWD}, path: [2]uint64{args[0], args[1]}}
		if got := parse(&notify.Notification{NR: int32(nr), Args: args}); got != want {
			t.Errorf("call %d: %+v, want %+v", nr, got, want)
		}
	}
}

// page is memory with nothing mapped behind it.
func page(t testing.TB) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, 3*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		err = unix.Mprotect(b[2*os.Getpagesize():], unix.PROT_NONE)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b[:2*os.Getpagesize()]
}

// at is where something is in this process's memory.
func at(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// TestRead: a name may lie across two pages, and may end where the next page is not mapped. A name without an end is
// refused.
func TestRead(t *testing.T) {
	memory, pid := page(t), uint32(os.Getpid())
	long := strings.Repeat("x", unix.PathMax-1)
	for _, c := range []struct {
		name string
		text string // at the end of the memory
		want string
	}{
		{"short", "a/b\x00", "a/b"},
		{"empty", "\x00", ""},
		{"no end", "a/b", ""},
		{"something behind it", "a\x00b\x00", "a"},
		{"the longest", long + "\x00", long},
		{"longer", long + "x\x00", ""},
		{"any bytes", "\xff\n\x01\x00", "\xff\n\x01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for behind := range 2 {
				clear(memory)
				for i := range memory {
					memory[i] = 'z'
				}
				from := memory[len(memory)-len(c.text)-behind:]
				copy(from, c.text)
				if behind == 1 && !strings.HasSuffix(c.text, "\x00") {
					continue
				}
				if got := new(caller).read(pid, at(from)); got != c.want {
					t.Errorf("%.20q, want %.20q", got, c.want)
				}
			}
		})
	}
	for _, nowhere := range []uint64{0, 1, 4095, at(memory) + uint64(len(memory)), 1 << 47, math.MaxUint64, math.MaxUint64 - 4095} {
		if got := new(caller).read(pid, nowhere); got != "" {
			t.Errorf("%#x: %q", nowhere, got)
		}
	}
	if got := new(caller).read(math.MaxInt32, at(memory)); got != "" {
		t.Errorf("of nobody: %q", got)
	}
}

// links is a tree with links of all kinds, which is the working directory until the test's end.
func links(t testing.TB) (dir string) {
	t.Helper()
	dir = testenv.Dir(t)
	testenv.Tree(t, dir, "d/e/f", "outside/", "l => d", "abs => "+dir+"/d", "up => ..", "d/out => ../outside", "loop => loop", "dangling => none", "file",
		"magic => /proc/self/cwd", "root => /proc/self/root")
	t.Chdir(dir)
	return dir
}

// wanted returns the directory of a name, and the last element of the name, both as the kernel finds them. ok: it finds
// them, and a name with a slash at the end is a directory's.
func wanted(name string) (dir unix.Stat_t, last string, ok bool) {
	slash := strings.HasSuffix(name, "/")
	name = strings.TrimRight(name, "/")
	parent, last := filepath.Split(name)
	if last == "" || last == "." || last == ".." {
		return dir, last, false
	}
	if slash {
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return dir, last, false
		}
	}
	if parent == "" {
		parent = "."
	}
	fd, err := unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir, last, false
	}
	defer unix.Close(fd)
	return dir, last, unix.Fstat(fd, &dir) == nil
}

// resolved has a name resolved, as both names of a rename, and compares it with what the kernel finds.
func resolved(t *testing.T, memory []byte, dirfd int32, name string) {
	t.Helper()
	text := append([]byte(name), 0)
	from := memory[len(memory)-len(text):]
	copy(from, text)
	s := caller{}
	defer s.close()
	c := call{pid: uint32(os.Getpid()), dir: [2]int32{dirfd, dirfd}, path: [2]uint64{at(from), at(from)}}
	if !s.open(c.pid) {
		t.Fatal("this process's root is not opened")
	}
	s.concerns(&c) // it may say anything
	m := s.resolve(&c)
	dir, last, ok := wanted(name)
	if m == nil {
		if ok && !strings.Contains(name, "magic") && !strings.Contains(name, "root") && !strings.Contains(name, "proc") {
			t.Errorf("%.100q is not found, and is by the kernel", name)
		}
		return
	}
	defer m.close()
	for _, p := range []place{m.from, m.to} {
		var st unix.Stat_t
		if err := unix.Fstat(int(p.dir), &st); err != nil {
			t.Fatal(err)
		}
		if !ok || p.name != last || st.Dev != dir.Dev || st.Ino != dir.Ino {
			t.Errorf("%.100q: %q in inode %d, and by the kernel %q in %d, %t", name, p.name, st.Ino, last, dir.Ino, ok)
		}
		if strings.Contains(p.name, "/") {
			t.Errorf("%.100q: the name %q has a slash", name, p.name)
		}
	}
}

var names = []string{
	"d", "d/e", "d/e/", "d//e///", "./d", "d/.", "d/..", "..", ".", "/", "", "//", "l/e", "abs/e", "up/x", "d/out/x", "d/../d/e", "../x", "loop/x", "dangling", "dangling/x",
	"file", "file/x", "none/x", "none", "d/new", "/tmp/x", "/proc/self/root/x", "/proc/self/cwd/d", "/proc/self/fd/0/x", "\xff/\n", "d/e/../../l/e/f", "/../../tmp", "/..", "l/", "l/.", "l//",
	"file/", "dangling/", "none/", "up/", "d/out/",
}

// TestResolve: a name is found where the kernel finds it, or the call is left to the kernel. It is never found through
// a process's files in /proc.
func TestResolve(t *testing.T) {
	testenv.Leaks(t)
	dir, memory := links(t), page(t)
	for _, name := range append(names, dir+"/d/e", dir+"/l/e", strings.Repeat("d/../", 100)+"d", strings.Repeat("x", 300), strings.Repeat("d/", 2000)) {
		resolved(t, memory, unix.AT_FDCWD, name)
	}
	for _, name := range []string{"magic/d", "root/tmp/x", "/proc/self/cwd/d", "/proc/self/root/x", "/proc/thread-self/cwd/d"} {
		s := caller{}
		text := append([]byte(name), 0)
		copy(memory[len(memory)-len(text):], text)
		c := call{pid: uint32(os.Getpid()), dir: [2]int32{unix.AT_FDCWD, unix.AT_FDCWD}}
		c.path = [2]uint64{at(memory[len(memory)-len(text):]), at(memory[len(memory)-len(text):])}
		if !s.open(c.pid) {
			t.Fatal("this process's root is not opened")
		}
		if _, _, ok := wanted(name); !ok {
			t.Errorf("the control: the kernel does not find %s", name)
		}
		if m := s.resolve(&c); m != nil {
			t.Errorf("%s is resolved", name)
			m.close()
		}
		s.close()
	}
	// Descriptors: of a directory, of a file, and none.
	f, err := sys.Openat2(unix.AT_FDCWD, "d", asDir, 0, beneath)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(f)
	copy(memory[len(memory)-4:], "e/f\x00")
	for fd, want := range map[int32]bool{int32(f): true, -1: false, math.MinInt32: false, math.MaxInt32: false, 1000: false} {
		s := caller{}
		c := call{pid: uint32(os.Getpid()), dir: [2]int32{fd, fd}, path: [2]uint64{at(memory[len(memory)-4:]), at(memory[len(memory)-4:])}}
		if m := s.open(c.pid); !m {
			t.Fatal("this process's root is not opened")
		}
		m := s.resolve(&c)
		if (m != nil) != want {
			t.Errorf("descriptor %d: %v", fd, m)
		}
		if m != nil {
			m.close()
		}
		s.close()
	}
}

// FuzzResolve is TestResolve for any name.
func FuzzResolve(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	links(f)
	memory := page(f)
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Contains(name, "\x00") || len(name) > 1000 {
			return
		}
		resolved(t, memory, unix.AT_FDCWD, name)
	})
}
