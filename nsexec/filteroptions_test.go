//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// helpChown gives a file to ids in all ways that there are, and prints what came of it.
func helpChown(args []string) int {
	name := args[0]
	f, err := os.Open(name)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer f.Close()
	for _, id := range [...]struct {
		what     string
		uid, gid int
	}{
		{"own", os.Getuid(), os.Getgid()}, {"none", -1, -1}, {"user", os.Getuid() + 1, -1}, {"group", -1, os.Getgid() + 1},
		{"less", os.Getuid() - 1, os.Getgid()}, {"root", 0, 0},
	} {
		errno := func(err error) string {
			e, _ := err.(syscall.Errno)
			return unix.ErrnoName(e)
		}
		fmt.Printf("%s %s %s %s %s\n", id.what, errno(unix.Chown(name, id.uid, id.gid)), errno(unix.Lchown(name, id.uid, id.gid)),
			errno(unix.Fchown(int(f.Fd()), id.uid, id.gid)), errno(unix.Fchownat(unix.AT_FDCWD, name, id.uid, id.gid, unix.AT_SYMLINK_NOFOLLOW)))
	}
	return 0
}

// helpBecome changes this thread's ids in all ways that there are, and prints what came of it.
func helpBecome(args []string) int {
	runtime.LockOSThread()
	const same = ^uintptr(0)
	uid, gid := uintptr(os.Getuid()), uintptr(os.Getgid())
	for _, c := range [...]struct {
		nr  uintptr
		own uintptr
		ids int
	}{
		{unix.SYS_SETUID, uid, 1}, {unix.SYS_SETREUID, uid, 2}, {unix.SYS_SETRESUID, uid, 3},
		{unix.SYS_SETGID, gid, 1}, {unix.SYS_SETREGID, gid, 2}, {unix.SYS_SETRESGID, gid, 3},
	} {
		for i := range c.ids {
			for _, id := range [...]uintptr{c.own, c.own + 1, 0} {
				a := [3]uintptr{same, same, same}
				a[i] = id
				_, _, e := unix.RawSyscall(c.nr, a[0], a[1], a[2])
				fmt.Print(unix.ErrnoName(e), ",")
			}
		}
		_, _, e := unix.RawSyscall(c.nr, same, same, same)
		fmt.Println(unix.ErrnoName(e))
	}
	return 0
}

// TestBecomeElsewhere: setuid(2) and its like fail for ids that the sandbox lacks with the same error as outside. With
// user namespaces, in which other ids may be there, the kernel answers.
func TestBecomeElsewhere(t *testing.T) {
	testenv.NeedUser(t)
	leaks(t)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), helperEnv+"=become")
	outside, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("outside: %v, %s", err, outside)
	}
	if want := "EPERM"; strings.Count(string(outside), want) != 2*12 {
		t.Fatalf("outside:\n%s", outside)
	}
	run := func(o nsexec.FilterOptions) string {
		c := helper("become")
		c.Mounts = base()
		c.Seccomp = []nsexec.Filter{o.Filter()}
		return output(t, c)
	}
	if got := run(nsexec.FilterOptions{}); got != strings.TrimSpace(string(outside)) {
		t.Errorf("inside:\n%s\noutside:\n%s", got, outside)
	}
	if got, want := run(nsexec.FilterOptions{UserNamespaces: true}), strings.ReplaceAll(strings.TrimSpace(string(outside)), "EPERM", "EINVAL"); got != want {
		t.Errorf("with user namespaces:\n%s\nwant:\n%s", got, want)
	}
}

// TestOwnersInUserNamespace: a command that makes a user namespace gives files to the ids that it has there.
func TestOwnersInUserNamespace(t *testing.T) {
	testenv.NeedUser(t)
	leaks(t)
	dir := testenv.Dir(t)
	c := shell("cd " + dir + "; touch f; unshare -Ur sh -c 'chown 0:0 f && setpriv --reuid 0 --regid 0 --keep-groups stat -c %u:%g f'")
	c.Mounts = base(mounts.Bind(dir, dir))
	c.Seccomp = []nsexec.Filter{nsexec.FilterOptions{UserNamespaces: true}.Filter()}
	if got := output(t, c); got != "0:0" {
		t.Errorf("printed %q", got)
	}
}

// TestChownElsewhere: chown(2) to ids that the sandbox lacks fails with the same error as outside. Without the filter
// for them, the error is another one.
func TestChownElsewhere(t *testing.T) {
	testenv.NeedUser(t)
	leaks(t)
	file := filepath.Join(testenv.Dir(t), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(f nsexec.Filter) string {
		c := helper("chown", file)
		c.Mounts = base(mounts.Bind(filepath.Dir(file), filepath.Dir(file)))
		c.Seccomp = []nsexec.Filter{f}
		return output(t, c)
	}
	want := func(errno string) string {
		others := fmt.Sprintf(" %[1]s %[1]s %[1]s %[1]s", errno)
		return strings.Join([]string{"own    ", "none    ", "user" + others, "group" + others, "less" + others, "root" + others}, "\n")
	}
	if got := run(nsexec.FilterOptions{}.Filter()); got != want("EPERM") {
		t.Errorf("the zero FilterOptions:\n%s", got)
	}
	if got := run(nsexec.DefaultFilter()); got != want("EINVAL") {
		t.Errorf("without them:\n%s", got)
	}
	// Another id inside is the only one, too.
	zero := []nsexec.IDMap{{Outside: uint32(os.Getuid()), Count: 1}}
	c := shell("chown 0 " + file + " && ! chown 1 " + file)
	c.UIDMap = zero
	c.Mounts = base(mounts.Bind(filepath.Dir(file), filepath.Dir(file)))
	c.Seccomp = []nsexec.Filter{nsexec.FilterOptions{UIDMap: zero}.Filter()}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "Operation not permitted") {
		t.Errorf("another id: %v, %s", err, out)
	}
}

// TestChangeRoot: a command changes its root only with the capability and with the option. (Control: without a filter.)
func TestChangeRoot(t *testing.T) {
	leaks(t)
	for _, tc := range []struct {
		name    string
		caps    nsexec.Capabilities
		filters []nsexec.Filter
		works   bool
	}{
		{"no filter", 1 << unix.CAP_SYS_CHROOT, nil, true},
		{"the option", 1 << unix.CAP_SYS_CHROOT, []nsexec.Filter{nsexec.FilterOptions{ChangeRoot: true}.Filter()}, true},
		{"the default", 1 << unix.CAP_SYS_CHROOT, []nsexec.Filter{nsexec.DefaultFilter()}, false},
		{"no capability", 0, []nsexec.Filter{nsexec.FilterOptions{ChangeRoot: true}.Filter()}, false},
	} {
		c := shell("PATH=$PATH:/usr/sbin:/sbin chroot / true && ! unshare -m true")
		c.Capabilities, c.Seccomp = tc.caps, tc.filters
		c.Mounts = base()
		c.UIDMap = []nsexec.IDMap{{Outside: uint32(os.Getuid()), Count: 1}}
		out, err := c.CombinedOutput()
		if (err == nil) != tc.works || !tc.works && !strings.Contains(string(out), "Operation not permitted") {
			t.Errorf("%s: %v, %s", tc.name, err, out)
		}
	}
}
