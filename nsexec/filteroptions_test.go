//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"path/filepath"
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
