//go:build linux

package broker

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// lookEvery is how often a goroutine checks whether a caller still waits for its
// connection, and whether a signal is pending.
const lookEvery = notify.LookEvery

// later starts a goroutine that waits for the end of a connect.
func (c *call) later(fd sys.FD) (e syscall.Errno, later bool) {
	return c.wait(func() syscall.Errno { return c.await(fd) })
}

// wait starts a goroutine that waits for an answer, for a caller that waits.
func (c *call) wait(answer func() syscall.Errno) (e syscall.Errno, later bool) {
	select {
	case c.b.slow <- struct{}{}:
	default:
		c.b.turnedAway.Add(1)
		c.giveUp()
		return syscall.EAGAIN, false
	}
	// The server may close its own meanwhile.
	t, e := openTask(c.task.pid)
	if e != 0 {
		<-c.b.slow
		c.giveUp()
		return e, false
	}
	t.forget() // many can wait, and only replace needs more
	c.task, c.s = t, nil
	c.b.running.Go(func() {
		defer func() { <-c.b.slow }()
		defer t.close()
		e := answer()
		c.close() // first, as in connect
		if e != answered {
			c.l.Answer(c.id, e)
		}
	})
	return 0, true
}

// giveUp ends the connect that later waits for.
func (c *call) giveUp() {
	if c.fresh == sys.None {
		c.restore()
	}
}

// await waits for fd to be connected, and does the rest.
func (c *call) await(fd sys.FD) syscall.Errno {
	defer c.giveUp()
	// Another descriptor for the poller: whose end this socket is does not change.
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err.(syscall.Errno)
	}
	f := os.NewFile(uintptr(dup), "connect")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return syscall.EIO
	}
	timeout, started := c.timeout(), time.Now()
	for {
		_ = f.SetWriteDeadline(time.Now().Add(lookEvery))
		err := raw.Write(func(fd uintptr) bool { return connected(int(fd)) })
		switch {
		case err == nil:
			if e := c.outcome(fd); e != syscall.EALREADY {
				return c.settle(fd, e)
			}
			// Another thread of the caller has begun anew. Or what is ready is a message in the socket's
			// error queue, which stays there.
			time.Sleep(lookEvery)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return syscall.EIO
		}
		if e := c.ended(timeout, started, syscall.EINPROGRESS); e != 0 { // as the kernel says it
			return e
		}
	}
}

// ended is why a call that waits since started does not wait any longer: expired if that was the time. Zero: it waits.
func (c *call) ended(timeout time.Duration, started time.Time, expired syscall.Errno) syscall.Errno {
	switch {
	case !c.l.Valid(c.id) || c.b.ending():
		return answered
	case timeout > 0 && time.Since(started) >= timeout:
		return expired
	case c.task.signalled():
		return notify.Restart
	}
	return 0
}

// outcome is how a connect ended, as the kernel tells who waits in it. One more tells too, but would begin anew
// where another thread of the caller has ended the first one with shutdown(2).
func (c *call) outcome(fd sys.FD) syscall.Errno {
	if now, e := state(fd); e != 0 || now != closed {
		return c.attempt(fd)
	}
	pending, _ := option(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	_ = disconnect(int(fd))
	if pending == 0 { // another thread was told
		return syscall.ECONNABORTED
	}
	return syscall.Errno(pending)
}

// settle does the rest after a connect ended with the error e.
func (c *call) settle(fd sys.FD, e syscall.Errno) syscall.Errno {
	switch e {
	case syscall.EINPROGRESS:
		// Another thread of the caller has ended it just now, and this is a new one, which nobody decided
		// about.
		_ = disconnect(int(fd))
		return syscall.ECONNABORTED
	case syscall.EISCONN:
		e = 0 // another thread was told
	}
	if e == 0 && c.fresh != sys.None {
		e = c.replace()
	}
	return e
}

// timeout is how long the caller wants to wait. 0: without a limit.
func (c *call) timeout() time.Duration {
	tv, err := unix.GetsockoptTimeval(int(c.old), unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil {
		return 0
	}
	return time.Duration(tv.Nano())
}

// connected reports whether a connect has ended, with success or an error.
func connected(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0
}

// ending reports whether the Broker is being closed.
func (b *Broker) ending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
