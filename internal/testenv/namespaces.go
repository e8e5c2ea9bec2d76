//go:build linux

package testenv

import (
	"os"
	"os/exec"
	"syscall"
)

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
