//go:build linux

package nsexec_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsexec"
)

// modeCalls are the system calls that give a file a mode, by what they are called with.
var modeCalls = []struct {
	name string
	call func(name string, mode uint32) error
}{
	{"openat", func(name string, mode uint32) error {
		return closed(unix.Openat(unix.AT_FDCWD, name, unix.O_CREAT|unix.O_WRONLY, mode))
	}},
	{"openat O_TMPFILE", func(name string, mode uint32) error {
		return linked(name, func() (int, error) { return unix.Openat(unix.AT_FDCWD, "/mnt", unix.O_TMPFILE|unix.O_WRONLY, mode) })
	}},
	{"openat2", func(name string, mode uint32) error {
		return closed(unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)}))
	}},
	{"openat2 O_TMPFILE", func(name string, mode uint32) error {
		return linked(name, func() (int, error) {
			return unix.Openat2(unix.AT_FDCWD, "/mnt", &unix.OpenHow{Flags: unix.O_TMPFILE | unix.O_WRONLY, Mode: uint64(mode)})
		})
	}},
	{"mknodat", func(name string, mode uint32) error { return unix.Mknodat(unix.AT_FDCWD, name, unix.S_IFREG|mode, 0) }},
	{"fchmod", func(name string, mode uint32) error {
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, mode)
	}},
	{"fchmodat", func(name string, mode uint32) error {
		return chmodBy(name, func(p uintptr) (uintptr, uintptr, unix.Errno) {
			return unix.Syscall(unix.SYS_FCHMODAT, atCwd, p, uintptr(mode))
		})
	}},
	{"fchmodat2", func(name string, mode uint32) error {
		return chmodBy(name, func(p uintptr) (uintptr, uintptr, unix.Errno) {
			return unix.Syscall6(fchmodat2, atCwd, p, uintptr(mode), 0, 0, 0)
		})
	}},
}

const (
	atCwd     = ^uintptr(99) // AT_FDCWD
	fchmodat2 = 452
)

func closed(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// linked gives a file without a name one.
func linked(name string, open func() (int, error)) error {
	fd, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}

func chmodBy(name string, call func(name uintptr) (uintptr, uintptr, unix.Errno)) error {
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	p := append([]byte(name), 0)
	if _, _, e := call(uintptr(unsafe.Pointer(&p[0]))); e != 0 {
		return e
	}
	return nil
}

// Those that newer architectures do not have.
func init() {
	for _, name := range slices.Sorted(maps.Keys(oldModeNumbers)) {
		nr := oldModeNumbers[name]
		modeCalls = append(modeCalls, struct {
			name string
			call func(name string, mode uint32) error
		}{name, func(file string, mode uint32) error {
			if name == "chmod" {
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					return err
				}
			}
			p := append([]byte(file), 0)
			a, b := uintptr(mode), uintptr(0)
			switch name {
			case "open":
				a, b = unix.O_CREAT|unix.O_WRONLY, uintptr(mode)
			case "mknod":
				a = uintptr(unix.S_IFREG | mode)
			}
			if _, _, e := unix.Syscall(nr, uintptr(unsafe.Pointer(&p[0])), a, b); e != 0 {
				return e
			}
			return nil
		}})
	}
}

// helpSetID makes files with bits in their modes in /mnt, and prints which have them.
func helpSetID([]string) int {
	unix.Umask(0)
	for i, c := range modeCalls {
		for _, bit := range []uint32{0, unix.S_ISUID, unix.S_ISGID} {
			name := fmt.Sprintf("/mnt/%d-%o", i, bit)
			err := c.call(name, 0o755|bit)
			var st unix.Stat_t
			_ = unix.Lstat(name, &st)
			switch {
			case err == nil && st.Mode&0o7777 == 0o755|bit:
				fmt.Println(c.name, bit, "made")
			case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
				fmt.Println(c.name, bit, "made after all", err)
			default:
				fmt.Println(c.name, bit, err)
			}
		}
	}
	return 0
}

// TestSetIDFiles: no system call gives a file a set-user-id bit. Without this bit all of them work, except for openat2.
// With NoSetGroupID, no call sets a set-group-id bit either. The control is a sandbox without a filter.
func TestSetIDFiles(t *testing.T) {
	leaks(t)
	_, _, e := unix.Syscall6(fchmodat2, atCwd, 0, 0, 0, 0, 0)
	old := e == unix.ENOSYS // before Linux 6.6; the filter refuses it there too
	for name, filter := range map[string]nsexec.Filter{
		"none": nil, "the default": nsexec.DefaultFilter(), "NoSetGroupID": nsexec.FilterOptions{NoSetGroupID: true}.Filter(),
	} {
		c := helper("setid")
		filtered, strict := filter != nil, name == "NoSetGroupID"
		if filtered {
			c.Seccomp = []nsexec.Filter{filter}
		}
		got := output(t, c)
		var want bytes.Buffer
		for _, call := range modeCalls {
			for _, bit := range []uint32{0, unix.S_ISUID, unix.S_ISGID} {
				text := "made"
				switch {
				case call.name == "fchmodat2" && old && !(filtered && (bit == unix.S_ISUID || strict && bit == unix.S_ISGID)):
					text = unix.ENOSYS.Error()
				case filtered && strings.HasPrefix(call.name, "openat2"):
					text = unix.ENOSYS.Error()
				case filtered && (bit == unix.S_ISUID || strict && bit == unix.S_ISGID):
					text = unix.EPERM.Error()
				}
				fmt.Fprintln(&want, call.name, bit, text)
			}
		}
		if got+"\n" != want.String() {
			t.Errorf("filter %s: got\n%s\nwant\n%s", name, got, want.String())
		}
	}
}
