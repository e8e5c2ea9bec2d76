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
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

const memfdNoExec = "/proc/sys/vm/memfd_noexec"

// helpNoMemfd starts a sandbox where no file in memory can be executed. A sysctl forbids it, which needs PID and mount
// namespaces of its own, or a filter refuses to make such files.
func helpNoMemfd(args []string) int {
	refuse := refuseMemfd
	if args[0] == "sysctl" {
		refuse = func() error {
			return errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""),
				os.WriteFile(memfdNoExec, []byte("2"), 0))
		}
	}
	if err := refuse(); err != nil {
		return complain(err)
	}
	if fd, err := unix.MemfdCreate("control", unix.MFD_EXEC); err != unix.EACCES {
		return complain(fmt.Errorf("a file in memory could be executed: %d, %v", fd, err))
	}
	out, err := shell("echo fine").CombinedOutput()
	fmt.Printf("%s%v\n", out, err)
	nsexec.Shutdown()
	return 0
}

// refuseMemfd is what a security module or a container's filter does to all threads.
func refuseMemfd() error {
	f := &seccomp.Filter{}
	f.Nr()
	f.When(seccomp.Equal, unix.SYS_MEMFD_CREATE, func() { f.Refuse(unix.EACCES) })
	f.Allow()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(*f)), Filter: &(*f)[0]}
	tid, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	if e != 0 || tid != 0 {
		return fmt.Errorf("install a filter: %w, thread %d", e, tid)
	}
	return nil
}

// TestNoMemfd: the launcher's image is executed from elsewhere then.
func TestNoMemfd(t *testing.T) {
	leaks(t)
	hows := []string{"filter"}
	if testenv.Root() && exists(memfdNoExec) { // since Linux 6.3
		hows = append(hows, "sysctl")
	}
	for _, how := range hows {
		c := exec.Command(exe, how)
		c.Env = append(os.Environ(), helperVars("nomemfd")...)
		if how == "sysctl" {
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
		}
		out, err := c.CombinedOutput()
		if err != nil || string(out) != "fine\n<nil>\n" {
			t.Errorf("%s: %v, %s", how, err, out)
		}
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
