//go:build linux

package nsexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestLostDescriptors: a program closes the descriptors that it does not know, but those of the Go runtime, and opens
// its own with the same numbers. The next Start works, and neither uses nor closes the program's.
func TestLostDescriptors(t *testing.T) {
	leaks(t)
	for _, what := range []string{"sockets", "pipes", "files", "nothing"} {
		c := exec.Command(exe, what)
		c.Env = append(os.Environ(), helperVars("lost")...)
		if out, err := c.CombinedOutput(); err != nil || string(out) != "fine\n" {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

// TestLostWhileRunning: a program closes the descriptors that it does not know while a command runs. When the context
// ends, Wait does, and the command is gone. The control closes nothing.
func TestLostWhileRunning(t *testing.T) {
	leaks(t)
	for _, what := range []string{"running", "running, waited for", "running, control"} {
		c := exec.Command(exe, what)
		c.Env = append(os.Environ(), helperVars("lost")...)
		if out, err := c.CombinedOutput(); err != nil || string(out) != "fine\n" {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

func lostWhileRunning(closing, waiting bool) error {
	before := openFiles()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := nsexec.CommandContext(ctx, "sleep", "1000")
	c.Mounts = base()
	c.WaitDelay = time.Millisecond
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	wait := func() { ended <- c.Wait() }
	if waiting {
		go wait()
		stack := make([]byte, 1<<20)
		if !testenv.Poll(testenv.Patience, func() bool { return strings.Contains(string(stack[:runtime.Stack(stack, true)]), "readRecord") }) {
			return errors.New("Wait does not read from the status pipe")
		}
	}
	n := 0
	for fd, name := range openFiles() {
		if _, known := before[fd]; !closing || known || strings.Contains(name, "[event") {
			continue
		}
		n++
		_ = unix.Close(fd)
	}
	if closing && n < 3 {
		return fmt.Errorf("the package has %d descriptors: this test does not find them", n)
	}
	if !waiting {
		go wait()
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			return errors.New("Wait says that the command succeeded")
		}
	case <-time.After(testenv.Patience):
		return errors.New("Wait does not end")
	}
	if err := unix.Kill(c.Process.Pid, 0); err != unix.ESRCH {
		return fmt.Errorf("the command still runs: %v", err)
	}
	return nil
}

// helpLost is that program.
func helpLost(args []string) int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	if what, how, _ := strings.Cut(args[0], ", "); what == "running" {
		if err := lostWhileRunning(how != "control", how == "waited for"); err != nil {
			return fail(err)
		}
		fmt.Println("fine")
		return 0
	}
	before := openFiles()
	if err := runFine(); err != nil {
		return fail(err)
	}
	if !testenv.Poll(testenv.Patience, func() bool { return nsexec.Waiting() > 0 }) {
		return fail(fmt.Errorf("no sandbox waits for a command"))
	}
	ids, others := map[int]sys.FileID{}, map[int]bool{}
	n := 0
	for fd, name := range openFiles() {
		if _, known := before[fd]; known || strings.Contains(name, "[event") {
			continue
		}
		n++
		mine, other, err := otherFile(args[0])
		if err != nil {
			return fail(err)
		}
		if mine < 0 {
			_ = unix.Close(fd)
			continue
		}
		if err := unix.Dup3(mine, fd, unix.O_CLOEXEC); err != nil {
			return fail(err)
		}
		ids[fd] = sys.FD(fd).ID()
		others[other] = true
	}
	if n < 4 {
		return fail(fmt.Errorf("the package keeps %d descriptors: this test does not find them", n))
	}
	intact := func(when string) error {
		for fd, id := range ids {
			if sys.FD(fd).ID() != id {
				return fmt.Errorf("%s: descriptor %d of the program was closed", when, fd)
			}
		}
		for fd := range others {
			if n, err := unix.Read(fd, make([]byte, 10)); fd >= 0 && err != unix.EAGAIN {
				return fmt.Errorf("%s: the program's descriptor got a message: %d, %v", when, n, err)
			}
		}
		return nil
	}
	for range 2 {
		if err := runFine(); err != nil {
			return fail(err)
		}
		if err := intact("after Start"); err != nil {
			return fail(err)
		}
		runtime.GC() // and finalizers
	}
	nsexec.Shutdown()
	runtime.GC()
	if err := intact("after Shutdown"); err != nil {
		return fail(err)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		return fail(fmt.Errorf("process %d is left: %v", pid, err))
	}
	fmt.Println("fine")
	return 0
}

func runFine() error {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience/2)
	defer cancel()
	c := nsexec.CommandContext(ctx, "sh", "-c", "echo fine")
	c.Mounts = base()
	out, err := c.CombinedOutput()
	if err == nil && string(out) != "fine\n" {
		err = fmt.Errorf("it says %q", out)
	}
	return err
}

// otherFile opens a descriptor that something can be written to, and one where that could be read; -1: none.
func otherFile(what string) (mine, other int, err error) {
	var p [2]int
	switch what {
	case "sockets":
		p, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	case "pipes":
		err = unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
		p[0], p[1] = p[1], p[0]
	case "files":
		p[0], err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		p[1] = -1
	default:
		p = [2]int{-1, -1}
	}
	return p[0], p[1], err
}

// openFiles are this process's descriptors, with their names.
func openFiles() map[int]string {
	list := map[int]string{}
	names, _ := os.ReadDir("/proc/self/fd")
	for _, d := range names {
		n, _ := strconv.Atoi(d.Name())
		if name, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil {
			list[n] = name
		}
	}
	return list
}
