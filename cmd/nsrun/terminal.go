package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// What the command did to the terminal must not decide what becomes of its changes:
// not by what was typed for it and was not read, not by a mode in which no answer
// gets through.

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// openTerminal opens the controlling terminal.
func openTerminal() (*os.File, error) {
	return os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
}

// control calls f with the descriptor, which stays as it is.
func control(tty *os.File, f func(fd int) error) error {
	c, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := c.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// terminal is how the terminal was.
type terminal struct {
	mode       *unix.Termios
	foreground bool // our process group was the one in the foreground
}

// saveTerminal returns nil if there is none.
func saveTerminal() *terminal {
	tty, err := openTerminal()
	if err != nil {
		return nil
	}
	defer tty.Close()
	t := &terminal{}
	err = control(tty, func(fd int) error {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		t.foreground = group == unix.Getpgrp()
		t.mode, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil {
		return nil
	}
	return t
}

// restore makes the terminal as it was, if it is ours.
func (t *terminal) restore() {
	if t == nil || !t.foreground {
		return
	}
	tty, err := openTerminal()
	if err != nil {
		return
	}
	defer tty.Close()
	// Who is in the background and changes the terminal is stopped otherwise.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	_ = control(tty, func(fd int) error {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		if own := unix.Getpgrp(); group != own {
			// The command's shell took the terminal and did not give it back. A group
			// that lives is somebody else: a shell that has put us in the background.
			if group > 0 && unix.Kill(-group, 0) != unix.ESRCH {
				return nil
			}
			if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, own); err != nil {
				return err
			}
		}
		return unix.IoctlSetTermios(fd, unix.TCSETS, t.mode)
	})
}

// ask asks on the terminal, whatever standard input is, and returns the answer in
// lower case: "" if there is none, or no terminal. What was typed before the
// question is no answer.
func ask(question string) string {
	tty, err := openTerminal()
	if err != nil {
		return ""
	}
	defer tty.Close()
	if err := control(tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }); err != nil {
		return ""
	}
	fmt.Fprintf(tty, "nsrun: %s ", question)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil {
		fmt.Fprintln(tty)
		return ""
	}
	return strings.ToLower(strings.TrimSpace(line))
}
