//go:build linux

package screen

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Key is one press of a key: a character, "up", "down", "left", "right", "home", "end", "pgup", "pgdn", "insert",
// "delete", "enter", "tab", "shift-tab", "esc", "backspace", "space", or "ctrl-" and a letter. Other keys are "".
type Key string

// maxPaste is how much of a pasted text is kept, in bytes.
const maxPaste = 4096

// input is something that was typed.
type input struct {
	key   Key
	paste string
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// decode takes the first key off b. n is 0 if the key is incomplete. If nothing more comes, last is true, and an
// incomplete key counts as it is.
func decode(b []byte, last bool) (in input, n int) {
	if len(b) == 0 {
		return input{}, 0
	}
	c := b[0]
	switch {
	case c == 0x1b:
		return escapeKey(b, last)
	case c == '\r' || c == '\n':
		return input{key: "enter"}, 1
	case c == '\t':
		return input{key: "tab"}, 1
	case c == 0x7f || c == 0x08:
		return input{key: "backspace"}, 1
	case c == ' ':
		return input{key: "space"}, 1
	case c > 0 && c < 0x1b:
		return input{key: Key("ctrl-" + string(rune('a'+c-1)))}, 1
	case c < ' ':
		return input{}, 1
	}
	if !utf8.FullRune(b) && !last {
		return input{}, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return input{}, n
	}
	return input{key: Key(string(r))}, n
}

// stringBegins are what begins a string behind Escape: OSC, DCS, SOS, PM and APC.
const stringBegins = "]PX^_"

// stringEnd says how long a string is with which a terminal answers what some program has asked it: its text was chosen
// by that program, and none of it is a key. Zero: it is incomplete.
func stringEnd(b []byte, last bool) int {
	for i := 2; i < len(b); i++ {
		switch {
		case b[i] == 0x07:
			return i + 1
		case b[i] != 0x1b || i+1 == len(b):
		case b[i+1] == '\\':
			return i + 2
		default:
			return i // another sequence begins
		}
	}
	if last {
		return len(b)
	}
	return 0
}

// escapeKey takes off a key that begins with the Escape character.
func escapeKey(b []byte, last bool) (in input, n int) {
	if len(b) == 1 {
		if !last {
			return input{}, 0
		}
		return input{key: "esc"}, 1
	}
	if strings.IndexByte(stringBegins, b[1]) >= 0 {
		return input{}, stringEnd(b, last)
	}
	if b[1] != '[' && b[1] != 'O' {
		if b[1] == 0x1b {
			return input{key: "esc"}, 1
		}
		// With Alt: nothing that is known here.
		_, n := decode(b[1:], last)
		if n == 0 {
			return input{}, 0
		}
		return input{}, 1 + n
	}
	// Parameters, then a final byte.
	end := 2
	for end < len(b) && b[end] < 0x40 && b[end] >= 0x20 {
		end++
	}
	if end == len(b) {
		if !last {
			return input{}, 0
		}
		return input{}, end
	}
	if b[1] == '[' && end == 2 && b[2] == '[' && len(b) > 3 { // the Linux console's function keys
		return input{}, 4
	}
	if bytes.HasPrefix(b, []byte(pasteBegin)) {
		return pasted(b)
	}
	param, _, _ := bytes.Cut(b[2:end], []byte{';'})
	return input{key: namedKey(b[end], string(param))}, end + 1
}

func namedKey(final byte, param string) Key {
	switch final {
	case 'A':
		return "up"
	case 'B':
		return "down"
	case 'C':
		return "right"
	case 'D':
		return "left"
	case 'H':
		return "home"
	case 'F':
		return "end"
	case 'M':
		return "enter"
	case 'Z':
		return "shift-tab"
	case '~':
		switch param {
		case "1", "7":
			return "home"
		case "4", "8":
			return "end"
		case "2":
			return "insert"
		case "3":
			return "delete"
		case "5":
			return "pgup"
		case "6":
			return "pgdn"
		}
	}
	return ""
}

// pasted takes off a pasted text when it is complete, however long that takes: its rest must not be taken for keys.
func pasted(b []byte) (in input, n int) {
	text := b[len(pasteBegin):]
	end := bytes.Index(text, []byte(pasteEnd))
	if end < 0 {
		return input{}, 0
	}
	return input{paste: string(text[:min(end, maxPaste)])}, len(pasteBegin) + end + len(pasteEnd)
}
