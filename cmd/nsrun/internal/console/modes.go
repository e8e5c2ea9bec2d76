//go:build linux

package console

import (
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What a command leaves on in the terminal itself decides how our lines look there, and
// whether they can be seen: text in the colour of its background, a region that scrolls
// elsewhere, letters that are drawn as lines, a sequence that waits for its end. So all of that
// is made as usual before the first of our lines that follows a command.

// Sequences that terminals without the mode ignore. The order matters: a saved cursor has
// attributes and character sets of its own, so these come last.
const (
	// What was begun is given up (CAN; ST, which ends every kind of string), VT52 mode and
	// printing instead of showing end.
	modesString = "\x18\x1b\\\x1b<\x1b[4i\x1b[?4i"
	// The window: the normal screen (the cursor stays where it is, if that is the normal one
	// already), all of it scrolls, no margins, nothing is held back.
	modesWindow = "\x1b[?2026l\x1b7\x1b[?1049l\x1b7\x1b[r\x1b[?69l\x1b8"
	// What keys and the mouse send: the keyboard protocols (kitty's, xterm's), cursor keys,
	// keypad, mouse, focus, pasted text, size, colour scheme.
	modesInput = "\x1b[<99u\x1b[=0u\x1b[>4;0m\x1b[>4m\x1b[?1l\x1b>\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l" +
		"\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l\x1b[?2031l\x1b[?2048l\x1b[?9001l\x1b[2l\x1b[12h"
	// How text is written: over what is there, to the next line at the end, line feeds as usual,
	// the window not inverted, the cursor visible and of the usual form.
	modesWriting = "\x1b[4l\x1b[?7h\x1b[20l\x1b[?5l\x1b[?25h\x1b[0 q"
	// The text itself: character sets, protection, colours.
	modesText = "\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[0\"q\x1b[0m"
)

// afterCommand is set when a command has ended, and not when it is seen to.
var afterCommand atomic.Bool

// CommandEnded is told that a command ended that may have left modes on.
func CommandEnded() { afterCommand.Store(true) }

// ClearModes writes them after a command, once, before the first thing that is said then: who
// has nothing to say writes nothing. It does so where standard error is a terminal that is
// ours. Where standard output is none, somebody else may be drawing on it just now (a pager): then only what
// concerns our own text.
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

// utf8Locale reports whether the terminal is to show UTF-8.
func utf8Locale() bool {
	for _, name := range [...]string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToUpper(value)
			return strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8")
		}
	}
	return false
}
