//go:build linux

package wall

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// Everything that a command passes is hostile: the numbers in registers, and its memory. Here the command is this
// process.

// told is a notification of a call that this process seems to make.
func told(nr int, args ...uint64) *notify.Notification {
	n := &notify.Notification{PID: uint32(os.Getpid()), NR: int32(nr)}
	copy(n.Args[:], args)
	return n
}

// memory is two pages, behind which nothing is mapped.
func memory(t testing.TB) []byte {
	t.Helper()
	size := 2 * os.Getpagesize()
	b, err := unix.Mmap(-1, 0, size+os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		err = unix.Mprotect(b[size:], unix.PROT_NONE)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b[:size]
}

// put puts something at the end of the memory, and says where it is.
func put(memory []byte, text string) uint64 {
	if text == "" {
		return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) + uint64(len(memory))
	}
	at := memory[len(memory)-len(text):]
	copy(at, text)
	return uint64(uintptr(unsafe.Pointer(&at[0])))
}

func text(fields ...any) string {
	var b bytes.Buffer
	for _, f := range fields {
		_ = binary.Write(&b, binary.NativeEndian, f)
	}
	return b.String()
}

// nowhere are addresses of nothing.
var nowhere = []uint64{0, 1, 4095, 1 << 47, math.MaxUint64, math.MaxUint64 - 31}

// TestAddress: an address has the length that the caller gives, and the length of its family.
func TestAddress(t *testing.T) {
	m := memory(t)
	four := text(uint16(unix.AF_INET), []byte{0x12, 0x34, 127, 0, 0, 1}, [8]byte{})
	six := text(uint16(unix.AF_INET6), []byte{0x12, 0x34}, uint32(0), netip.IPv6Loopback().As16(), uint32(0))
	for _, c := range []struct {
		name, raw string
		size      uint64
		want      string
		e         syscall.Errno
	}{
		{"IPv4", four, 16, "127.0.0.1:4660", 0},
		{"IPv4, longer", four + "more", 20, "127.0.0.1:4660", 0},
		{"IPv4, much longer", four + strings.Repeat("x", 12), 1 << 31, "127.0.0.1:4660", 0},
		{"the upper half of the size", four, 16 | 1<<32, "127.0.0.1:4660", 0},
		{"IPv4, shorter", four, 15, "", syscall.EINVAL},
		{"no size", four, 0, "", syscall.EINVAL},
		{"size of 2^32", four, 1 << 32, "", syscall.EINVAL},
		{"longer than the memory", four, 28, "", syscall.EFAULT},
		{"IPv6", six, 28, "[::1]:4660", 0},
		{"IPv6 without a scope", six, 24, "[::1]:4660", 0},
		{"IPv6, shorter", six, 23, "", syscall.EAFNOSUPPORT},
		{"unix", text(uint16(unix.AF_UNIX)) + strings.Repeat("x", 26), 28, "", syscall.EAFNOSUPPORT},
		{"none", strings.Repeat("\x00", 28), 28, "", syscall.EAFNOSUPPORT},
		{"all bits", strings.Repeat("\xff", 28), 28, "", syscall.EAFNOSUPPORT},
	} {
		got, e := address(told(unix.SYS_BIND, 3, put(m, c.raw), c.size))
		if text := got.String(); e != c.e || e == 0 && text != c.want {
			t.Errorf("%s: %s, %v, want %s, %v", c.name, text, e, c.want, c.e)
		}
	}
	for _, at := range nowhere {
		if got, e := address(told(unix.SYS_BIND, 3, at, 28)); e == 0 {
			t.Errorf("%#x: %v", at, got)
		}
	}
}

// TestLoopbackOf: the address that replaces an address on a socket is a loopback address of its family.
func TestLoopbackOf(t *testing.T) {
	for _, c := range []struct {
		domain, only int
		addr, want   string
	}{
		{unix.AF_INET, 0, "0.0.0.0", "127.0.0.1"}, {unix.AF_INET, 0, "127.0.0.1", "127.0.0.1"}, {unix.AF_INET, 0, "127.255.0.7", "127.255.0.7"},
		{unix.AF_INET, 0, "128.0.0.1", ""}, {unix.AF_INET, 0, "192.0.2.1", ""}, {unix.AF_INET, 0, "255.255.255.255", ""}, {unix.AF_INET, 0, "224.0.0.1", ""},
		{unix.AF_INET, 0, "::1", ""}, {unix.AF_INET, 0, "::ffff:127.0.0.1", ""}, {unix.AF_INET, 0, "::", ""},
		{unix.AF_INET6, 0, "::", "::ffff:127.0.0.1"}, {unix.AF_INET6, 1, "::", "::1"}, {unix.AF_INET6, 0, "::1", "::1"},
		{unix.AF_INET6, 0, "::ffff:127.0.0.1", "::ffff:127.0.0.1"}, {unix.AF_INET6, 0, "::ffff:192.0.2.1", ""}, {unix.AF_INET6, 0, "::ffff:0.0.0.0", ""},
		{unix.AF_INET6, 0, "::127.0.0.1", ""}, {unix.AF_INET6, 0, "2001:db8::1", ""}, {unix.AF_INET6, 0, "fe80::1", ""}, {unix.AF_INET6, 0, "127.0.0.1", ""},
		{unix.AF_UNIX, 0, "127.0.0.1", ""},
	} {
		fd, err := unix.Socket(c.domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil && c.only == 1 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		}
		if err != nil {
			testenv.Skip(t, "ipv6", err.Error())
		}
		got, want := loopback(sys.FD(fd), netip.MustParseAddr(c.addr)), netip.Addr{}
		if c.want != "" {
			want = netip.MustParseAddr(c.want)
		}
		if got != want {
			t.Errorf("domain %d, only IPv6 %d: got %s for %s, want %s", c.domain, c.only, got, c.addr, want)
		}
		_ = unix.Close(fd)
	}
}

// TestFindSocket: a descriptor that is no socket does not count as the command's, whatever number it has.
func TestFindSocket(t *testing.T) {
	var s sockets
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for number, want := range map[uint64]syscall.Errno{
		uint64(f.Fd()): syscall.ENOTSOCK, math.MaxUint64: syscall.EBADF, 1 << 31: syscall.EBADF, math.MaxInt32: syscall.EBADF,
		1<<32 | uint64(f.Fd()): syscall.ENOTSOCK,
	} {
		if ino, fd, e := s.find(notify.Listener(sys.None), told(unix.SYS_BIND, number)); e != want || fd != sys.None {
			t.Errorf("descriptor %#x: inode %d, %d, %v, want %v", number, ino, fd, e, want)
		}
	}
}

// TestValue: the new value of a change to a file is read as the kernel reads it, and only users' attributes can be set.
func TestValue(t *testing.T) {
	m := memory(t)
	var d Deputy
	now := []unix.Timespec{{Sec: -1, Nsec: 999}, {Sec: 1 << 40, Nsec: unix.UTIME_OMIT}}
	for _, c := range []struct {
		name string
		n    *notify.Notification
		is   func(v value) bool
		e    syscall.Errno
	}{
		{"mode", told(unix.SYS_FCHMOD, 0, math.MaxUint64), func(v value) bool { return v.mode == 0o7777 }, 0},
		{"owner", told(unix.SYS_FCHOWN, 0, math.MaxUint32, 7|1<<32), func(v value) bool { return v.uid == -1 && v.gid == 7 }, 0},
		{"now", told(unix.SYS_UTIMENSAT, 0, 0, 0), func(v value) bool { return v.times == nil }, 0},
		{"times", told(unix.SYS_UTIMENSAT, 0, 0, put(m, text(now))), func(v value) bool { return v.times[0] == now[0] && v.times[1] == now[1] }, 0},
		{"times nowhere", told(unix.SYS_UTIMENSAT, 0, 0, 1), nil, syscall.EFAULT},
		{"half of the times", told(unix.SYS_UTIMENSAT, 0, 0, put(m, text(now))+16), nil, syscall.EFAULT},
		{"no name", told(unix.SYS_FREMOVEXATTR, 0, 1), nil, syscall.EFAULT},
	} {
		v, e := d.value(c.n, find(c.n.NR))
		if e != c.e || e == 0 && !c.is(v) {
			t.Errorf("%s: %+v, %v", c.name, v, e)
		}
	}
	for name, want := range map[string]syscall.Errno{
		"user.x": 0, "user.": 0, "system.posix_acl_access": 0, "security.capability": syscall.EPERM, "trusted.overlay.opaque": syscall.EPERM,
		"system.nfs4_acl": syscall.EPERM, "User.x": syscall.EPERM, "": syscall.EPERM, "user": syscall.EPERM,
	} {
		for _, c := range []struct {
			nr   int
			args []uint64
		}{{unix.SYS_FREMOVEXATTR, []uint64{0}}, {unix.SYS_FSETXATTR, []uint64{0}}, {unix.SYS_LSETXATTR, []uint64{0}}} {
			at := put(m, name+"\x00")
			if v, e := d.value(told(c.nr, c.args[0], at, at, uint64(len(name)), 1), find(int32(c.nr))); e != want || e == 0 && v.name != name {
				t.Errorf("call %d, %q: %+v, %v", c.nr, name, v, e)
			}
		}
	}
	at := put(m, "user.x\x00")
	for size, want := range map[uint64]syscall.Errno{0: 0, 7: 0, 8: syscall.EFAULT, maxAttribute: syscall.EFAULT, maxAttribute + 1: syscall.E2BIG, 1 << 32: syscall.E2BIG, math.MaxUint64: syscall.E2BIG} {
		if v, e := d.value(told(unix.SYS_FSETXATTR, 0, at, at, size, 0), find(unix.SYS_FSETXATTR)); e != want || e == 0 && uint64(len(v.data)) != size {
			t.Errorf("size %d: %v, %d bytes", size, e, len(v.data))
		}
	}
	for _, at := range nowhere {
		if v, e := d.value(told(unix.SYS_FSETXATTR, 0, at, at, 1, 0), find(unix.SYS_FSETXATTR)); e == 0 {
			t.Errorf("%#x: %+v", at, v)
		}
	}
}

// TestOldTimes: microseconds are less than a million.
func TestOldTimes(t *testing.T) {
	m := memory(t)
	pid := uint32(os.Getpid())
	for micro, want := range map[int64]syscall.Errno{0: 0, 999_999: 0, 1_000_000: syscall.EINVAL, -1: syscall.EINVAL, math.MaxInt64: syscall.EINVAL, math.MinInt64: syscall.EINVAL} {
		for _, raw := range []string{text(int64(1), micro, int64(2), int64(3)), text(int64(1), int64(3), int64(2), micro)} {
			got, e := readTimes(pid, uintptr(put(m, raw)), oldTimes)
			if e != want || e == 0 && (got[0].Sec != 1 || got[1].Sec != 2 || got[0].Nsec+got[1].Nsec != 1000*(micro+3)) {
				t.Errorf("%d microseconds: %v, %v", micro, got, e)
			}
		}
	}
	if got, e := readTimes(pid, uintptr(put(m, text(int64(-5), int64(6)))), utimbuf); e != 0 || got[0] != (unix.Timespec{Sec: -5}) || got[1] != (unix.Timespec{Sec: 6}) {
		t.Errorf("utimbuf: %v, %v", got, e)
	}
}

// TestOpen: the file is the one that the kernel would open. Of a process's files in /proc, only the caller's
// descriptors are opened.
func TestOpen(t *testing.T) {
	testenv.Leaks(t)
	dir, m := testenv.Dir(t), memory(t)
	testenv.Tree(t, dir, "d/f", "l => d/f", "loop => loop", "magic => /proc/self/exe", "cwd => /proc/self/cwd")
	t.Chdir(dir)
	open, err := os.Open("d")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	fd := uint64(open.Fd())
	const cwd = 1<<64 - 100 // AT_FDCWD
	for _, c := range []struct {
		name  string
		dir   uint64
		flags uint64
		want  string // another name of it; empty: e
		e     syscall.Errno
	}{
		{"d/f", cwd, 0, "d/f", 0},
		{"d/f", cwd & math.MaxUint32, 0, "d/f", 0},
		{dir + "/d/f", math.MaxUint64, 0, "d/f", 0},
		{"f", fd, 0, "d/f", 0},
		{"f", fd | 1<<32, 0, "d/f", 0},
		{"l", cwd, 0, "d/f", 0},
		{"l", cwd, unix.AT_SYMLINK_NOFOLLOW, "l", 0},
		{"../d/f", fd, 0, "d/f", 0},
		{"", fd, unix.AT_EMPTY_PATH, "d", 0},
		{"", cwd, unix.AT_EMPTY_PATH, ".", 0},
		{"", fd, 0, "", syscall.ENOENT},
		{"f", 1000, 0, "", syscall.EBADF},
		{"f", math.MaxUint64, 0, "", syscall.EBADF},
		{"f/x", fd, 0, "", syscall.ENOTDIR},
		{"loop", cwd, 0, "", syscall.ELOOP},
		{"magic", cwd, 0, "", syscall.ELOOP},
		{"cwd/d/f", cwd, 0, "", syscall.ELOOP},
		{"/proc/self/cwd/d/f", cwd, 0, "", syscall.ELOOP},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10), cwd, 0, "d", 0},
		{"/dev/fd/" + strconv.FormatUint(fd, 10), cwd, 0, "d", 0},
		{"/dev/fd/1000", cwd, 0, "", syscall.EBADF},
		{"/dev/fd/" + strconv.FormatUint(fd, 10) + "/../d/f", cwd, 0, "d/f", 0},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "/f", cwd, 0, "d/f", 0},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "//f", 1000, 0, "d/f", 0},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "/", cwd, 0, "d", 0},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "/../l", cwd, unix.AT_SYMLINK_NOFOLLOW, "l", 0},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "/../cwd/d/f", cwd, 0, "", syscall.ELOOP},
		{"/proc/self/fd/" + strconv.FormatUint(fd, 10) + "/f/x", cwd, 0, "", syscall.ENOTDIR},
		{"/proc/self/fd/1000/f", cwd, 0, "", syscall.EBADF},
		{"/proc/self/fd/x/f", cwd, 0, "", syscall.ENOENT},
		{"/dev/fd/4294967296", cwd, 0, "", syscall.ENOENT},
		{"none", cwd, 0, "", syscall.ENOENT},
		{strings.Repeat("x", 300), cwd, 0, "", syscall.ENAMETOOLONG},
		{strings.Repeat("x", unix.PathMax), cwd, 0, "", syscall.ENAMETOOLONG},
		{"d/f", cwd, 0x10000, "", syscall.EINVAL},
		{"d/f", cwd, math.MaxUint64, "", syscall.EINVAL},
	} {
		var d Deputy
		got, e := d.open(told(unix.SYS_FCHOWNAT, c.dir, put(m, c.name+"\x00"), 0, 0, c.flags), find(unix.SYS_FCHOWNAT))
		if e != c.e || (e == 0) != (got != sys.None) {
			t.Errorf("%.100q at %#x, flags %#x: %v, want %v", c.name, c.dir, c.flags, e, c.e)
		}
		if e == 0 && c.want != "" {
			var have, want unix.Stat_t
			if unix.Fstat(int(got), &have) != nil || unix.Lstat(c.want, &want) != nil || have.Ino != want.Ino || have.Dev != want.Dev {
				t.Errorf("%.100q at %#x, flags %#x: the opened file is not %s", c.name, c.dir, c.flags, c.want)
			}
		}
		if e == 0 {
			got.Close()
		}
	}
}

// TestPathOnly: what changes the file of a descriptor does not take one that was opened with O_PATH.
func TestPathOnly(t *testing.T) {
	testenv.Leaks(t)
	name := testenv.Dir(t) + "/f"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[int]syscall.Errno{unix.O_RDONLY: 0, unix.O_PATH: syscall.EBADF} {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, nr := range []int{unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_UTIMENSAT} {
			got, e := new(Deputy).open(told(nr, uint64(fd)), find(int32(nr)))
			if e != want {
				t.Errorf("call %d, flags %#x: %v, want %v", nr, flags, e, want)
			}
			got.Close()
		}
		_ = unix.Close(fd)
	}
}

// FuzzHandle: whatever a command hands over is read without harm, and nothing is done for a caller that does not wait.
func FuzzHandle(f *testing.F) {
	for _, list := range [...][]call{newCalls, oldCalls} {
		for _, c := range list {
			f.Add(int32(c.nr), uint64(0), uint64(1<<64-100), uint64(0), uint64(0), uint64(0), []byte("user.x\x00/etc/passwd\x00"))
		}
	}
	m := memory(f)
	f.Fuzz(func(t *testing.T, nr int32, a, b, c, d, e uint64, raw []byte) {
		if len(raw) > len(m) {
			return
		}
		at := put(m, string(raw))
		n := told(int(nr), a, b, c, d, e)
		// Small numbers are places in the memory, for those that are addresses.
		for i := range n.Args {
			if n.Args[i] < uint64(len(raw)) && i > 0 {
				n.Args[i] += at
			}
		}
		deputy := Deputy{May: func(string) bool {
			t.Errorf("call %d: May is called", nr)
			return false
		}}
		if got := deputy.handle(notify.Listener(sys.None), n); got == 0 {
			t.Errorf("call %d was done", nr)
		}
		_, _ = address(n)
	})
}
