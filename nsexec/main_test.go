//go:build linux

package nsexec_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// helperEnv makes this binary one of the helpers: what tests run inside a
// sandbox, or instead of an embedding program.
const helperEnv = "NSRUN_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		os.Exit(helpers[name](os.Args[1:]))
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m, nsexec.Shutdown)
}

// exe is this binary.
var exe = func() string {
	p, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return p
}()

// base is the host's files, read-only, with a place to write: /mnt.
func base(more ...mounts.Mount) mounts.Plan {
	return append(mounts.Plan{
		mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc"), mounts.Tmpfs("/mnt"),
	}, more...)
}

// shell is a script in a sandbox.
func shell(script string) *nsexec.Cmd {
	c := nsexec.Command("sh", "-c", script)
	c.Mounts = base()
	return c
}

// helper is one of the helpers in a sandbox.
func helper(name string, args ...string) *nsexec.Cmd {
	c := nsexec.Command(exe, args...)
	c.Mounts = base()
	c.Env = append(nsexec.BaseEnv(), helperVars(name)...)
	return c
}

// helperVars are the variables that make this binary a helper. The race detector
// would wait a second at its end.
func helperVars(name string, more ...string) []string {
	return append([]string{helperEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}, more...)
}

// output runs the command and returns what it said, without the last newline.
func output(t testing.TB, c *nsexec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, out, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// check runs a script and compares its output.
func check(t testing.TB, c *nsexec.Cmd, want string) {
	t.Helper()
	if got := output(t, c); got != want {
		t.Errorf("%s\n got %q\nwant %q", c, got, want)
	}
}

// leaks checks that the test leaves nothing.
func leaks(t testing.TB) {
	t.Helper()
	testenv.Leaks(t, nsexec.Shutdown)
}

// bothWays runs a test with the new mount calls, and with the classic ones.
func bothWays(t *testing.T, test func(t *testing.T, classic bool)) {
	t.Run("new", func(t *testing.T) {
		if !features.Has(features.NewMountCalls) {
			testenv.Skip(t, string(features.NewMountCalls), "the kernel has no mount_setattr")
		}
		leaks(t)
		test(t, false)
	})
	t.Run("classic", func(t *testing.T) {
		leaks(t)
		test(t, true)
	})
}

// wantError compares an error of Start with what it should be.
func wantError(t testing.TB, err error, op, path string, cause error) {
	t.Helper()
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok {
		t.Errorf("got %v, want an *Error: %s %s: %v", err, op, path, cause)
		return
	}
	if string(e.Op) != op || e.Path != path || !errors.Is(err, cause) {
		t.Errorf("got  %s %s: %v\nwant %s %s: %v", e.Op, e.Path, e.Err, op, path, cause)
	}
}

func write(t testing.TB, perm os.FileMode, content string, name ...string) string {
	t.Helper()
	p := filepath.Join(name...)
	if err := os.WriteFile(p, []byte(content), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p, perm); err != nil {
		t.Fatal(err)
	}
	return p
}

// exists reports whether there is something at the path on the host.
func exists(name ...string) bool {
	_, err := os.Lstat(filepath.Join(name...))
	return err == nil
}

// asNobody is for processes without any privilege.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
