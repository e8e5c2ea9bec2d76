//go:build linux

package nsrun

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	errHold = errors.New("the command could not be stopped for the question")
	errRan  = errors.New("the command ran while the question was asked, and could have written over it")
)

// The time that a command may take to stop, and how many of its processes are checked.
const (
	stopPatience = 2 * time.Second
	maxStopped   = 20000
)

// paused calls f while everything in the sandbox is stopped: nothing there reads the terminal or writes to it. A
// process can have itself continued, for example by a timer or by input whose signal is SIGCONT. So it is an error if
// one ran.
func (x *Execution) paused(ctx context.Context, f func()) error {
	if err := x.cmd.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = x.cmd.Signal(syscall.SIGCONT) }()
	var before map[string]string
	for until := time.Now().Add(stopPatience); ; time.Sleep(time.Millisecond) {
		// Once is not enough: while the last processes stop, they can continue the first ones.
		now := stopped(x.cmd.Process.Pid)
		if now != nil && maps.Equal(now, before) {
			break
		}
		switch before = now; {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(until):
			return errHold
		}
	}
	f()
	if after := stopped(x.cmd.Process.Pid); after == nil || !maps.Equal(after, before) {
		return errRan
	}
	return nil
}

// stopped returns for each thread below PID 1 of a sandbox how often it has run, if all are stopped. Then nothing there
// can start to run, except a process that ends an uninterruptible wait, and that then stops. Nil: they are not.
func stopped(pid1 int) map[string]string {
	list := children(strconv.Itoa(pid1))
	if len(list) == 0 {
		return nil // the kernel does not tell, or it has just begun
	}
	ran := make(map[string]string)
	for n := 0; len(list) > 0; n++ {
		pid := list[len(list)-1]
		list = append(list[:len(list)-1], children(pid)...)
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
		for _, name := range threads {
			b, err := os.ReadFile(name)
			if err != nil {
				continue // it has ended
			}
			state, times := "", ""
			for line := range strings.Lines(string(b)) {
				switch key, value, _ := strings.Cut(line, ":"); key {
				case "State":
					state = strings.TrimSpace(value)
				case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
					times += value
				}
			}
			if state == "" || times == "" || !strings.ContainsRune("TtZXD", rune(state[0])) {
				return nil
			}
			ran[name] = times
		}
		if n > maxStopped {
			return nil
		}
	}
	return ran
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
