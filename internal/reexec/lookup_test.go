//go:build linux

package reexec

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/testenv"
)

// opened is openat2(2) as the child does it where that is refused.
func opened(dir int, name string, how unix.OpenHow) (int, error) {
	path := append([]byte(name), 0)
	var h prog.Header
	fd, e := within(unsafe.Pointer(&h), uintptr(dir), uintptr(unsafe.Pointer(&path[0])), (*[3]uint64)(unsafe.Pointer(&how)))
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// TestLookup: it finds what openat2(2) finds, and no more.
func TestLookup(t *testing.T) {
	testenv.Leaks(t)
	const careful = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	testenv.Lookups(t, opened, unix.RESOLVE_IN_ROOT, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS, unix.RESOLVE_BENEATH, careful,
		unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS, careful|unix.RESOLVE_NO_XDEV)
	if _, err := opened(unix.AT_FDCWD, "/", unix.OpenHow{Flags: unix.O_PATH}); err != unix.ENOSYS {
		t.Errorf("a lookup that may leave: %v", err)
	}
}

func TestLookupSwapped(t *testing.T) {
	testenv.Leaks(t)
	testenv.SwapLookups(t, opened)
}

// TestInstead: without statx(2), the same is found out as with it.
func TestInstead(t *testing.T) {
	testenv.Leaks(t)
	for _, name := range []string{"/", "/dev/null", "/proc/self/exe", os.TempDir()} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var want unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &want); err != nil {
			t.Fatal(err)
		}
		var got [32]uint64
		empty := uint64(0)
		if e := statInstead(uintptr(fd), uintptr(unsafe.Pointer(&empty)), atEmptyPath, uintptr(unsafe.Pointer(&got))); e != 0 {
			t.Fatal(e)
		}
		st := (*unix.Statx_t)(unsafe.Pointer(&got))
		if st.Mode != want.Mode || st.Ino != want.Ino || st.Dev_major != want.Dev_major || st.Dev_minor != want.Dev_minor ||
			st.Rdev_major != want.Rdev_major || st.Rdev_minor != want.Rdev_minor {
			t.Errorf("%s: %+v, want %+v", name, st, want)
		}
		var h prog.Header
		if id, e := mountListed(unsafe.Pointer(&h), uintptr(fd)); e != 0 || id != want.Mnt_id {
			t.Errorf("%s is on mount %d, %v, want %d", name, id, e, want.Mnt_id)
		}
		_ = unix.Close(fd)
	}
}

const closingEnv = "NSRUN_TEST_CLOSING"

// closing is a process that closes the descriptors it inherited, and prints those that are left.
func closing() int {
	closeInstead(4, ^uintptr(0)>>32)
	for fd := range 200 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && fd > 2 {
			print(fd, " ")
		}
	}
	return 0
}

// TestCloseInstead: all descriptors of a range are closed, and no others.
func TestCloseInstead(t *testing.T) {
	testenv.Leaks(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := []*os.File{null, w, w}
	for len(files) < 150 {
		files = append(files, null)
	}
	p, err := os.StartProcess("/proc/self/exe", []string{"closing"}, &os.ProcAttr{Env: []string{closingEnv + "=1"}, Files: files})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 4096)
	n, _ := r.Read(out)
	if s, err := p.Wait(); err != nil || s.Sys().(syscall.WaitStatus) != 0 {
		t.Fatal(s, err)
	}
	// The runtime has opened its own before: the poller's epoll instance and eventfd have low numbers, and are
	// closed, too.
	if got := strings.Fields(string(out[:n])); len(got) != 1 || got[0] != "3" {
		t.Errorf("left are %q", got)
	}
}
