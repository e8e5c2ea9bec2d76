//go:build linux

package console

import (
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A command can leave modes on in the terminal that make our lines unreadable or invisible: text in the color of the
// background, a scrolling region, line-drawing characters, an unfinished escape sequence. So nsrun resets these modes
// before it prints its first line after a command. It does not see what a command writes to the terminal, so it resets
// all of them, also colors that were set before the command began.

// Sequences that terminals without the mode ignore. The order matters: a saved cursor has
// attributes and character sets of its own, so these come last.
const (
	// Cancel an unfinished sequence (CAN) and string (ST). Leave VT52 mode and the modes that send output to a
	// printer or to the status line.
	modesString = "\x18\x1b\\\x1b<\x1b[4i\x1b[?4i\x1b[0$}"
	// The window: the normal screen, without moving the cursor if it is on already; no scrolling region, no
	// margins, no synchronized output.
	modesWindow = "\x1b[?2026l\x1b7\x1b[?1049l\x1b7\x1b[r\x1b[?69l\x1b8"
	// What the terminal sends: keyboard protocols (kitty's, xterm's), cursor keys, keypad, mouse, focus, bracketed
	// paste, reports of size and color scheme.
	modesInput = "\x1b[<99u\x1b[=0u\x1b[>4;0m\x1b[>4m\x1b[>m\x1b[?1l\x1b>\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l" +
		"\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l\x1b[?2031l\x1b[?2048l\x1b[?9001l\x1b[2l\x1b[12h"
	// How text is written: replace mode, automatic wrap, normal line feeds, no reverse video, a visible cursor of
	// the default shape and color, the default colors of the mouse pointer and of selected text.
	modesWriting = "\x1b[4l\x1b[?7h\x1b[20l\x1b[?5l\x1b[?25h\x1b[0 q" +
		"\x1b]112\x1b\\\x1b]113\x1b\\\x1b]114\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\"
	// The text itself: links, what the colors are (of the Linux console, too), character sets, protection, colors.
	modesText = "\x1b]8;;\x1b\\\x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]R\x1b\\" +
		"\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[0\"q\x1b[0m"
)

// afterCommand is set if a command has ended and ClearModes was not called since.
var afterCommand atomic.Bool

// CommandEnded records that a command ended, which may have left modes on.
func CommandEnded() { afterCommand.Store(true) }

// ClearModes resets the terminal's modes, once after each command, if standard error is a terminal that this process is
// in the foreground of. If standard output is not a terminal, another program, such as a pager, may be drawing on the
// screen: then ClearModes resets only what affects our own text.
func ClearModes() {
	if !afterCommand.CompareAndSwap(true, false) {
		return
	}
	tty := int(os.Stderr.Fd())
	if group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return
	}
	if os.Getenv("TERM") == "dumb" {
		return
	}
	text := modesString + modesText
	if IsTerminal(os.Stdout) {
		text = modesString + modesWindow + modesInput + modesWriting + modesText
	}
	if utf8Locale() {
		text += "\x1b%G"
	}
	_, _ = os.Stderr.WriteString(text)
}

// utf8Locale reports whether the locale uses UTF-8.
func utf8Locale() bool {
	for _, name := range [...]string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToUpper(value)
			return strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8")
		}
	}
	return false
}
