//go:build linux

package testenv

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudoterminal with the test at the keyboard.
type Terminal struct {
	t      testing.TB
	master *os.File
	slave  *os.File

	mu     sync.Mutex
	screen bytes.Buffer // all that was written to it
	done   chan struct{}
}

// NewTerminal opens a pseudoterminal; the test's end closes it.
func NewTerminal(t testing.TB) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ioctl(master, func(fd int) (int, error) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return 0, err
		}
		return unix.IoctlGetInt(fd, unix.TIOCGPTN)
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A key that sends a signal must not throw away what was printed meanwhile: the test waits for it.
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err == nil {
		mode.Lflag |= unix.NOFLSH
		err = unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, master: master, slave: slave, done: make(chan struct{})}
	go term.watch()
	t.Cleanup(term.Close)
	return term
}

// ioctl uses the descriptor without making it block.
func ioctl(f *os.File, use func(fd int) (int, error)) (n int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	return n, errors.Join(c.Control(func(fd uintptr) { n, err = use(int(fd)) }), err)
}

func (p *Terminal) watch() {
	defer close(p.done)
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.screen.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Close closes both ends.
func (p *Terminal) Close() {
	_ = p.slave.Close()
	_ = p.master.Close()
	<-p.done
}

// Slave is the end that programs use.
func (p *Terminal) Slave() *os.File { return p.slave }

// Attach makes the terminal the command's controlling terminal and its three descriptors, in a session of its own.
func (p *Terminal) Attach(c *exec.Cmd) {
	c.Stdin, c.Stdout, c.Stderr = p.slave, p.slave, p.slave
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
}

// Type types; "\x03" is Ctrl-C.
func (p *Terminal) Type(s string) {
	p.t.Helper()
	if _, err := p.master.WriteString(s); err != nil {
		p.t.Fatal(err)
	}
}

// Screen is all that was written so far.
func (p *Terminal) Screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// Ended reports whether all ends that programs use are closed, the test's too, and everything was read.
func (p *Terminal) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Await waits until s was written.
func (p *Terminal) Await(s string) {
	p.t.Helper()
	p.AwaitTimes(s, 1)
}

// AwaitTimes waits until s was written n times since the terminal was opened.
func (p *Terminal) AwaitTimes(s string, n int) {
	p.t.Helper()
	if !Poll(Patience, func() bool { return bytes.Count([]byte(p.Screen()), []byte(s)) >= n }) {
		p.t.Fatalf("%q never came; the terminal shows\n%s", s, p.Screen())
	}
}

// Resize changes the window's size.
func (p *Terminal) Resize(rows, cols uint16) {
	p.t.Helper()
	_, err := ioctl(p.master, func(fd int) (int, error) {
		return 0, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// Foreground is the process group in the foreground.
func (p *Terminal) Foreground() int {
	p.t.Helper()
	n, err := ioctl(p.master, func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}
