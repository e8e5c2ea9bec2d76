//go:build linux

package nsrun

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName is the name of the signal that ended the command, "SIGKILL"; empty: none.
func (r Result) SignalName() string {
	if s, ok := r.Signal.(syscall.Signal); ok {
		return unix.SignalName(s)
	}
	return ""
}
