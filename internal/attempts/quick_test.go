//go:build linux

package attempts

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// TestPasses: what nothing refuses, and a look at something that the host lacks too, is answered without the Observer.
// Nothing that the policy may refuse is.
func TestPasses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"there", "program", "setid", "closed"} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Chmod("program", 0o755) != nil || os.Chmod("setid", 0o755|os.ModeSetuid) != nil || os.Symlink("nowhere", "link") != nil || os.Mkdir("sub", 0o755) != nil {
		t.Fatal("no files")
	}
	at, err := unix.Open("sub", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	o := &Observer{Deny: []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}}}
	o.quick = newQuick(o)
	o.quick.begun = true
	if o.quick.root, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(o.quick.root)
	// The kernel reads the caller's memory, which is this process's own.
	text := make([]byte, unix.PathMax)
	call := func(nr int32, dir int, name string, args ...uint64) bool {
		n := copy(text, name+"\x00")
		q := o.quick
		q.seen.PID, q.seen.NR = uint32(os.Getpid()), nr
		q.seen.Args = [6]uint64{uint64(uint32(dir)), uint64(uintptr(unsafe.Pointer(&text[0])))}
		copy(q.seen.Args[2:], args)
		if nr == unix.SYS_EXECVE {
			q.seen.Args[0] = q.seen.Args[1]
		}
		ok := q.passes()
		runtime.KeepAlive(text[:n])
		return ok
	}
	const here = unix.AT_FDCWD
	for _, c := range []struct {
		about string
		nr    int32
		dir   int
		name  string
		arg   uint64
		arg2  uint64
		want  bool
	}{
		{"read", unix.SYS_OPENAT, here, "there", unix.O_RDONLY, 0, true},
		{"read by an absolute name", unix.SYS_OPENAT, here, dir + "/there", unix.O_RDONLY, 0, true},
		{"read from a directory", unix.SYS_OPENAT, at, "../there", unix.O_RDONLY, 0, true},
		{"missing in a directory", unix.SYS_OPENAT, at, "there", unix.O_RDONLY, 0, true},
		{"missing in a directory that is missing", unix.SYS_OPENAT, here, "none/none/there", unix.O_RDONLY, 0, true},
		{"missing after a name that is none", unix.SYS_OPENAT, here, "none/../there", unix.O_RDONLY, 0, false},
		{"in what is no directory", unix.SYS_OPENAT, here, "there/there", unix.O_RDONLY, 0, false},
		{"write", unix.SYS_OPENAT, here, "there", unix.O_WRONLY, 0, true},
		{"read and write", unix.SYS_OPENAT, here, "there", unix.O_RDWR, 0, true},
		{"truncate", unix.SYS_OPENAT, here, "there", unix.O_TRUNC, 0, true},
		{"write to what is missing", unix.SYS_OPENAT, here, "new", unix.O_WRONLY, 0, false},
		{"create", unix.SYS_OPENAT, here, "new", unix.O_CREAT, 0, true},
		{"create there", unix.SYS_OPENAT, here, "there", unix.O_CREAT, 0, true},
		{"create only", unix.SYS_OPENAT, here, "new", unix.O_CREAT | unix.O_EXCL, 0, true},
		{"create only there", unix.SYS_OPENAT, here, "there", unix.O_CREAT | unix.O_EXCL, 0, true},
		{"create in what is missing", unix.SYS_OPENAT, here, "none/new", unix.O_CREAT, 0, false},
		{"create without a name", unix.SYS_OPENAT, here, "sub", unix.O_TMPFILE | unix.O_RDWR, 0, true},
		{"make a directory", unix.SYS_MKDIRAT, here, "new", 0, 0, true},
		{"make a directory that is there", unix.SYS_MKDIRAT, here, "sub", 0, 0, true},
		{"make a device", unix.SYS_MKNODAT, here, "new", unix.S_IFCHR, 1, false},
		{"change", unix.SYS_FCHMODAT, here, "there", 0, 0, true},
		{"change what is missing", unix.SYS_FCHMODAT, here, "new", 0, 0, false},
		{"give away", unix.SYS_FCHOWNAT, here, "there", 0, 0, false},
		{"look", unix.SYS_NEWFSTATAT, here, "there", 0, 0, true},
		{"look behind a link", unix.SYS_NEWFSTATAT, here, "link", 0, 0, true},
		{"look at a link", unix.SYS_NEWFSTATAT, here, "link", 0, unix.AT_SYMLINK_NOFOLLOW, true},
		{"execute", unix.SYS_EXECVE, here, "program", 0, 0, true},
		{"execute what changes the user", unix.SYS_EXECVE, here, "setid", 0, 0, false},
		{"execute what is no program", unix.SYS_EXECVE, here, "there", 0, 0, false},
		{"ask to write", unix.SYS_FACCESSAT, here, "there", unix.W_OK, 0, true},
		{"ask to read", unix.SYS_FACCESSAT, here, "there", unix.R_OK, 0, true},
		{"missing", unix.SYS_OPENAT, here, "missing", unix.O_RDONLY, 0, true},
		{"remove", unix.SYS_UNLINKAT, here, "there", 0, 0, true},
		{"remove what is missing", unix.SYS_UNLINKAT, here, "missing", 0, 0, false},
		{"remove what is mounted", unix.SYS_UNLINKAT, here, "/sys", 0, 0, false},
		{"remove .", unix.SYS_UNLINKAT, here, "sub/.", 0, 0, false},
		{"remove ..", unix.SYS_UNLINKAT, here, "sub/..", 0, 0, false},
		{"remove with a slash at the end", unix.SYS_UNLINKAT, here, "sub/", 0, 0, false},
		{"rename", unix.SYS_RENAMEAT, here, "there", 0, 0, false},
		{"link", unix.SYS_LINKAT, here, "there", 0, 0, false},
		{"processes", unix.SYS_OPENAT, here, "/proc/none", unix.O_RDONLY, 0, true},
		{"no name", unix.SYS_OPENAT, here, "", unix.O_RDONLY, 0, false},
		{"no directory", unix.SYS_OPENAT, 9999, "there", unix.O_RDONLY, 0, false},
	} {
		if got := call(c.nr, c.dir, c.name, c.arg, c.arg2); got != c.want {
			t.Errorf("%s: %t", c.about, got)
		}
	}
	o.quick.lacking = true
	if os.Chmod("closed", 0o600) != nil || call(unix.SYS_OPENAT, here, "closed", unix.O_RDONLY) || !call(unix.SYS_OPENAT, here, "there", unix.O_RDONLY) {
		t.Error("what only its owner may read, for somebody without the rights of root")
	}
	if o.quick.begun = false; call(unix.SYS_EXECVE, here, "program") {
		t.Error("the first program, which is the command")
	}
	o.quick.begun = true
	if !call(unix.SYS_EXIT_GROUP, 0, "") || !call(unix.SYS_WRITE, 2, "") {
		t.Error("the end of a process, and what it writes, while none is followed")
	}
	o.Follow(slices.Values([]int{1}))
	if call(unix.SYS_EXIT_GROUP, 0, "") || !call(unix.SYS_WRITE, 2, "") {
		t.Error("the end of a process, whose parent may be followed")
	}
	o.quick.deny, o.quick.rules = &unix.SockFilter{Code: seccomp.Return, K: seccomp.Refuse | uint32(unix.EPERM)}, 1
	if call(unix.SYS_NEWFSTATAT, here, "there") {
		t.Error("what another filter refuses")
	}
}

// TestPassesHidden: what the sandbox lacks and the host has is left to the Observer.
func TestPassesHidden(t *testing.T) {
	host := t.TempDir()
	inside := filepath.Join(host, "root")
	if os.Mkdir(inside, 0o755) != nil || os.WriteFile(filepath.Join(host, "secret"), nil, 0o644) != nil {
		t.Fatal("no files")
	}
	for _, name := range []string{"secret", "nothing"} { // in the sandbox neither leads to a file
		if err := os.Symlink(filepath.Join(host, name), filepath.Join(inside, name)); err != nil {
			t.Fatal(err)
		}
	}
	q := newQuick(&Observer{Deny: []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}}})
	q.begun = true
	var err error
	if q.root, err = unix.Open(inside, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(q.root)
	text := make([]byte, unix.PathMax)
	for _, c := range []struct {
		name string
		want bool
	}{{"/secret", false}, {"/nothing", true}, {"/secret", false}, {"/none/none", true}} {
		copy(text, c.name+"\x00")
		q.seen.PID, q.seen.NR, q.seen.Args = uint32(os.Getpid()), unix.SYS_OPENAT, [6]uint64{0, uint64(uintptr(unsafe.Pointer(&text[0])))}
		if got := q.passes(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		runtime.KeepAlive(text)
	}
}

// TestFollows: all threads of a followed process are known, and no others, unless there are too many.
func TestFollows(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = child.Wait() }()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	q, own, other := &quick{}, os.Getpid(), child.Process.Pid
	for _, tt := range []struct {
		followed         []int
		threads, another bool
	}{
		{nil, false, false}, {[]int{own}, true, false}, {[]int{other}, false, true}, {[]int{other, own}, true, true},
		{slices.Repeat([]int{own}, mostFollowed), true, false}, {slices.Repeat([]int{own}, mostFollowed+1), true, true},
	} {
		q.follow(slices.Values(tt.followed))
		for _, thread := range threads {
			number, err := strconv.Atoi(thread.Name())
			if err != nil || q.follows(uint32(number)) != tt.threads {
				t.Errorf("%v: thread %s of %d, %v", tt.followed, thread.Name(), own, err)
			}
		}
		if q.follows(uint32(other)) != tt.another {
			t.Errorf("%v: %d", tt.followed, other)
		}
	}
}

// TestPassesPages: a name that goes on in the next page, or is not there, is left to the Observer.
func TestPassesPages(t *testing.T) {
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	o := &Observer{Deny: []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}}}
	q := newQuick(o)
	q.begun = true
	if q.root, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(q.root)
	at := 0
	passes := func(begin int) bool {
		at = begin
		q.seen.PID, q.seen.NR, q.seen.Args = uint32(os.Getpid()), unix.SYS_OPENAT, [6]uint64{0, uint64(uintptr(unsafe.Pointer(&b[0]))) + uint64(begin)}
		return q.passes()
	}
	copy(b[page-5:], "/etc\x00")
	if !passes(page - 5) {
		t.Errorf("at %d, which ends with the page", at)
	}
	copy(b[page-2:], "/etc\x00")
	if passes(page - 2) {
		t.Errorf("at %d, which goes on in the next page", at)
	}
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if passes(0) {
		t.Error("memory that cannot be read")
	}
}

// TestKnown: what is known is about one call and one error, and does not grow.
func TestKnown(t *testing.T) {
	var k known
	hash := func(name string, d deed, mode uint32, e unix.Errno) uint64 {
		return answer(unsafe.StringData(name+"\x00"), d, mode, e)
	}
	one := hash("/x", opens, unix.R_OK, unix.ENOENT)
	k.add(one)
	for _, other := range []uint64{hash("/y", opens, unix.R_OK, unix.ENOENT), hash("/x", looks, unix.R_OK, unix.ENOENT), hash("/x", opens, 0, unix.ENOENT), hash("/x", opens, unix.R_OK, unix.EACCES)} {
		if k.has(other) {
			t.Errorf("%#x is known", other)
		}
	}
	if !k.has(one) {
		t.Error("the process is not known")
	}
	for i := range 3 * len(k.hashes) {
		k.add(hash("/x", opens, uint32(i+10), unix.ENOENT))
	}
	if k.has(one) || k.number > len(k.hashes)/2 {
		t.Errorf("%d are kept", k.number)
	}
}
