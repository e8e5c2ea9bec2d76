package nsexec

import (
	"os"
	"reflect"
	"strconv"
	"syscall"
	"unsafe"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// statusOffset is where os.ProcessState keeps the wait status; 0 if this version
// of Go keeps it elsewhere.
var statusOffset = func() uintptr {
	f, ok := reflect.TypeFor[os.ProcessState]().FieldByName("status")
	if !ok || f.Type != reflect.TypeFor[syscall.WaitStatus]() {
		return 0
	}
	return f.Offset
}()

// setStatus makes ps tell the command's end. PID 1, whose child the command was,
// can only exit with a number: a command that died from a signal would look like
// one that exited with 128 and some. If the field is not found (a test would say
// so), it does look like that.
func setStatus(ps *os.ProcessState, ws syscall.WaitStatus) {
	if statusOffset != 0 {
		*(*syscall.WaitStatus)(unsafe.Add(unsafe.Pointer(ps), statusOffset)) = ws
	}
}
