//go:build linux

package console

import (
	"os"

	"golang.org/x/sys/unix"

	askpkg "github.com/nsrun/nsrun/internal/ask"
	"github.com/nsrun/nsrun/internal/sys"
)

// The command must not influence the question about its changes: neither by unread input that was typed for it, nor by
// a terminal mode in which no answer gets through.

func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// DrawnOn reports whether f is a terminal that a program reads single keys from. Most such programs fill the window.
func DrawnOn(f *os.File) bool {
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && mode.Lflag&unix.ICANON == 0
}

// Terminal is a saved state of the terminal.
type Terminal struct {
	tty        *os.File // open until Restore: a command can have the kernel refuse to open it again (TIOCEXCL)
	mode       *unix.Termios
	size       *unix.Winsize // nil: the terminal has none
	foreground bool          // our process group was the one in the foreground
	exclusive  bool
}

// SaveTerminal returns nil if there is no terminal.
func SaveTerminal() *Terminal {
	tty, err := askpkg.Open()
	if err != nil {
		return nil
	}
	t := &Terminal{tty: tty}
	err = askpkg.Control(tty, func(fd int) error {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		t.foreground = group == unix.Getpgrp()
		if exclusive, err := unix.IoctlGetInt(fd, unix.TIOCGEXCL); err == nil {
			t.exclusive = exclusive != 0
		}
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && usable(size) {
			t.size = size
		}
		t.mode, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil {
		_ = tty.Close()
		return nil
	}
	return t
}

// Restore restores the saved state once, if this process is in the foreground of the terminal.
func (t *Terminal) Restore() {
	if t == nil {
		return
	}
	defer t.tty.Close()
	if !t.foreground {
		return
	}
	restore := func(fd int) error {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		if own := unix.Getpgrp(); group != own {
			// The command's shell took the terminal and did not give it back. If the group still exists, it
			// is another one: a shell has put us in the background.
			if group > 0 && unix.Kill(-group, 0) != unix.ESRCH {
				return nil
			}
			if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, own); err != nil {
				return err
			}
		}
		if !t.exclusive {
			_ = unix.IoctlSetInt(fd, unix.TIOCNXCL, 0)
		}
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && t.size != nil && !usable(size) {
			_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, t.size)
		}
		return unix.IoctlSetTermios(fd, unix.TCSETS, t.mode)
	}
	_ = sys.FromBackground(func() error { return askpkg.Control(t.tty, restore) })
}

// usable reports whether a window can have this size. The kernel does not tell whether the command set the size or
// somebody resized the window, so Restore replaces only a size that nobody can work with.
func usable(size *unix.Winsize) bool {
	const fewestRows, fewestColumns, most = 2, 10, 2000
	return size.Row >= fewestRows && size.Col >= fewestColumns && size.Row <= most && size.Col <= most
}
