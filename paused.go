//go:build linux

package nsrun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errHold = errors.New("the command could not be stopped for the question")

// The time that a command may take to stop, and how many of its processes are checked.
const (
	stopPatience = 2 * time.Second
	maxStopped   = 20000
)

// paused calls f while everything in the sandbox is stopped: nothing there reads the terminal or writes to it.
func (x *Execution) paused(ctx context.Context, f func()) error {
	if err := x.cmd.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = x.cmd.Signal(syscall.SIGCONT) }()
	for until := time.Now().Add(stopPatience); !stopped(x.cmd.Process.Pid); time.Sleep(time.Millisecond) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(until):
			return errHold
		}
	}
	f()
	return nil
}

// stopped reports whether all processes below PID 1 of a sandbox are stopped. Then nothing there can start to run,
// except a process that ends an uninterruptible wait, and that then stops.
func stopped(pid1 int) bool {
	list := children(strconv.Itoa(pid1))
	if len(list) == 0 {
		return false // the kernel does not tell, or it has just begun
	}
	for n := 0; len(list) > 0; n++ {
		pid := list[len(list)-1]
		list = append(list[:len(list)-1], children(pid)...)
		states, _ := filepath.Glob("/proc/" + pid + "/task/*/stat")
		for _, name := range states {
			b, err := os.ReadFile(name)
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
			if rest == "" || !strings.ContainsRune("TtZXD", rune(rest[0])) {
				return false
			}
		}
		if n > maxStopped {
			return false
		}
	}
	return true
}

// children are the processes that all threads of a process have made.
func children(pid string) (list []string) {
	files, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, name := range files {
		b, _ := os.ReadFile(name)
		list = append(list, strings.Fields(string(b))...)
	}
	return list
}
