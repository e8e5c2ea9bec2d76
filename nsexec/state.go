//go:build linux

package nsexec

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"syscall"
	"unsafe"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// stateLayout says where os.ProcessState has its fields; ok is false if this version of Go has them elsewhere.
var stateLayout = func() (l struct {
	status, rusage uintptr
	ok             bool
}) {
	t := reflect.TypeFor[os.ProcessState]()
	status, ok1 := t.FieldByName("status")
	rusage, ok2 := t.FieldByName("rusage")
	l.status, l.rusage = status.Offset, rusage.Offset
	l.ok = ok1 && ok2 && status.Type == reflect.TypeFor[syscall.WaitStatus]() && rusage.Type == reflect.TypeFor[*syscall.Rusage]()
	return l
}()

// setStatus makes ps report how the command ended. The command was the child of PID 1, which can only exit with a
// number: a command that a signal ended would look like one that exited with 128+n. If the field is not found (a test
// would fail), it does look like that.
func setStatus(ps *os.ProcessState, ws syscall.WaitStatus) {
	if stateLayout.ok {
		*(*syscall.WaitStatus)(unsafe.Add(unsafe.Pointer(ps), stateLayout.status)) = ws
	}
}

// newState is the end of a command whose PID 1 nobody waits for, or other code waited for. Its resource usage is not
// known, and zero.
func (c *Cmd) newState(ws syscall.WaitStatus) (*os.ProcessState, error) {
	if !stateLayout.ok {
		return nil, &Error{Op: "wait", Path: c.Path, Err: errors.New("ended with wait status " + itoa(int64(ws)))}
	}
	ps := new(os.ProcessState)
	setStatus(ps, ws)
	*(**syscall.Rusage)(unsafe.Add(unsafe.Pointer(ps), stateLayout.rusage)) = new(syscall.Rusage)
	return ps, nil
}
