//go:build linux

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// AllNeedNamespaces skips the whole package where this process cannot make namespaces: in a container with docker's
// defaults, for example. TestMain calls it before Main, but not in a helper's process. Packages without it are tested
// in the namespaces that there are.
func AllNeedNamespaces() {
	if special() || os.Getenv(asRootEnv) != "" {
		return
	}
	if err := noNamespaces(); err != nil {
		skipAll(err)
	}
}

// NeedNamespaces skips a test where this process cannot make namespaces.
func NeedNamespaces(t testing.TB) {
	t.Helper()
	if err := noNamespaces(); err != nil {
		Skip(t, "namespaces", err.Error())
	}
}

// noNamespaces says why this process cannot make namespaces with rights in them. Nil: it can.
var noNamespaces = sync.OnceValue(func() error {
	c := exec.Command("/bin/sh", "-c", ":")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Chroot: "/"}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER // without ids, because then Go forgets two descriptors if this fails
	}
	if err := c.Run(); err != nil {
		return fmt.Errorf("this process cannot make a mount namespace: %w", err)
	}
	return nil
})

// skipAll runs one test instead of all, and skips it. It does not return.
func skipAll(why error) {
	test := testing.InternalTest{Name: "TestAll", F: func(t *testing.T) { Skip(t, "namespaces", why.Error()) }}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{test}, nil, nil)
}

// WithoutNamespaces has a command run where no user namespace can be made, as on hosts whose administrator allows none:
// in one that allows no others. The command believes to be root.
func WithoutNamespaces(c *exec.Cmd) *exec.Cmd { return withNamespaces(c, "0") }

// WithoutMoreNamespaces has a command run where the only user namespace that is allowed is taken by another process,
// which ends with it.
func WithoutMoreNamespaces(c *exec.Cmd) *exec.Cmd { return withNamespaces(c, "1") }

func withNamespaces(c *exec.Cmd, most string) *exec.Cmd {
	const script = `echo "$0" >/proc/sys/user/max_user_namespaces || exit 99
[ "$0" = 0 ] && exec "$@"
unshare -U sleep 1000 & # which has to have its own before the command begins
until [ "$(readlink /proc/$!/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do kill -0 $! || exit 98; done
"$@"
status=$?
kill $!
exit $status`
	c.Args = append([]string{"/bin/sh", "-c", script, most, c.Path}, c.Args[1:]...)
	c.Path = "/bin/sh"
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	return c
}
