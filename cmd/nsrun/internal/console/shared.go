//go:build linux

package console

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Shared is what a command shares with our caller, and can change for it.
type Shared struct {
	// flags are those of standard input, output and error. Without waiting (O_NONBLOCK), programs of the caller
	// would fail afterwards; with signals (O_ASYNC), they would be killed; without O_APPEND they would overwrite a
	// log. -1: none.
	flags [3]int
	nice  string // of the session; empty: the command has its own, for want of a terminal, or the kernel gives none
}

// autogroup has the priority of this session, see sched(7).
const autogroup = "/proc/self/autogroup"

// SaveShared returns it as it is now.
func SaveShared() (s Shared) {
	terminal := false
	for fd := range s.flags {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			terminal = true
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			flags = -1
		}
		s.flags[fd] = flags
	}
	if !terminal {
		return s
	}
	if text, err := sys.ReadFile(autogroup, make([]byte, 64)); err == nil {
		_, s.nice, _ = strings.Cut(strings.TrimSpace(string(text)), " nice ")
	}
	return s
}

// Restore restores what has changed.
func (s Shared) Restore() {
	now := SaveShared()
	for fd, flags := range now.flags {
		if s.flags[fd] != -1 && flags != -1 && flags != s.flags[fd] {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, s.flags[fd])
		}
	}
	if now.nice == s.nice || s.nice == "" {
		return
	}
	// For ordinary users the kernel takes ten changes a second, of all users together.
	for range 10 {
		if err := os.WriteFile(autogroup, []byte(s.nice), 0); !errors.Is(err, unix.EAGAIN) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
