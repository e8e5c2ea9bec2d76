//go:build linux

package nsexec

import (
	"reflect"
	"time"

	"golang.org/x/sys/unix"
)

// awaitDeadline waits for the context whose deadline PID 1 has enforced: its timer can fire a little later, but after
// Wait the context must be done.
func (c *Cmd) awaitDeadline() {
	if c.ctx == nil {
		return
	}
	if up, ok := c.ctx.Deadline(); ok && !time.Now().Before(up) {
		select {
		case <-c.ctx.Done():
		case <-time.After(patience): // a context of somebody's own kind
		}
	}
}

// times are when PID 1 must ask the command to end, and when it must kill everything, in nanoseconds of
// CLOCK_MONOTONIC; 0: never.
func (c *Cmd) times() (ask, end int64) {
	if !c.opt.Deadline.IsZero() {
		ask, end = monotonic(c.opt.Deadline), monotonic(c.opt.Deadline.Add(c.WaitDelay))
	}
	if c.ctx == nil {
		return ask, end
	}
	up, ok := c.ctx.Deadline()
	switch {
	case !ok:
		return ask, end
	case c.isDefault(c.Cancel):
	case c.WaitDelay > 0:
		up = up.Add(c.WaitDelay)
	default:
		return ask, end // Cancel alone knows what is to be done, if anything
	}
	if at := monotonic(up); end == 0 || at < end {
		end = at
	}
	return ask, end
}

// isDefault reports whether f is what CommandContext has set.
func (c *Cmd) isDefault(f func() error) bool {
	return c.kill != nil && reflect.ValueOf(f).Pointer() == reflect.ValueOf(c.kill).Pointer()
}

// monotonic converts a time to the clock of PID 1. Like timers of the Go runtime, that clock does not count the time in
// which the machine is suspended.
func monotonic(t time.Time) int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return max(1, now.Nano()+int64(time.Until(t)))
}
