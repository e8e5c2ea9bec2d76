//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// helpNoMemfd starts a sandbox where no file in memory can be executed. It must be in PID
// and mount namespaces of its own.
func helpNoMemfd([]string) int {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""),
		os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0))
	if err != nil {
		return complain(err)
	}
	if fd, err := unix.MemfdCreate("control", unix.MFD_EXEC); err == nil {
		return complain(fmt.Errorf("a file in memory could be executed: %d", fd))
	}
	out, err := shell("echo fine").CombinedOutput()
	fmt.Printf("%s%v\n", out, err)
	nsexec.Shutdown()
	return 0
}

// TestNoMemfd: the launcher's image is executed from elsewhere then.
func TestNoMemfd(t *testing.T) {
	testenv.NeedRoot(t)
	leaks(t)
	if !exists("/proc/sys/vm/memfd_noexec") {
		testenv.Skip(t, "memfd_noexec", "the kernel does not have it")
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperVars("nomemfd")...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "fine\n<nil>\n" {
		t.Errorf("%v, %s", err, out)
	}
}

// helpNoFiles starts a sandbox where nothing can be written anywhere.
func helpNoFiles([]string) int {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}); err != nil {
		return complain(err)
	}
	_, err := unix.Write(1, []byte(fmt.Sprint(shell("true").Run())))
	return complain(err)
}

// TestNoLauncher: why there is no launcher is in the error.
func TestNoLauncher(t *testing.T) {
	leaks(t)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperVars("nofiles")...)
	out, err := c.CombinedOutput()
	for _, want := range []string{"launcher: ", "make the launcher's image in memory: file too large", "in " + os.TempDir() + ": "} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, %s; want %s", err, out, want)
		}
	}
}
