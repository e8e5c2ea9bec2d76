// Package escape escapes text of unknown origin (file names, commands, messages) so that a terminal shows it and obeys
// nothing in it. It imports nothing of this module, and writes to nothing itself.
package escape

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is s with escapes for what is not printable.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if c := s[:n]; unprintable(r) {
			c = quote(c)
			b.WriteString(c[1 : len(c)-1])
		} else {
			b.WriteString(c)
		}
		s = s[n:]
	}
	return b.String()
}

// Exact is Printable, but where anything is escaped backslashes are doubled: what was a
// newline cannot be taken for a backslash and an n.
func Exact(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	return Printable(strings.ReplaceAll(s, `\`, `\\`))
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar || blank(r) }

// blank reports whether r is a letter or sign that looks like nothing (default ignorable
// ones, and the empty Braille pattern), whatever unicode.IsPrint says.
func blank(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return 0x180b <= r && r <= 0x180f || 0xe0100 <= r && r <= 0xe01ef
}

// Quote makes a name safe to print: as it is, or in quotes. In quotes are also names that would look like another one,
// or like the two names of a rename.
func Quote(s string) string {
	if plain(s) && strings.IndexFunc(s, selector) < 0 && strings.TrimSpace(s) == s && !strings.Contains(s, " -> ") {
		return s
	}
	return quote(s)
}

func plain(s string) bool { return s != "" && strings.IndexFunc(s, unprintable) < 0 && s[0] != '"' }

// selector reports whether r chooses a form of the character before it. In texts it belongs to many pictures; alone it
// looks like nothing.
func selector(r rune) bool { return 0xfe00 <= r && r <= 0xfe0f }

// quote is strconv.Quote, without what looks like nothing.
func quote(s string) string {
	s = strconv.Quote(s)
	nothing := func(r rune) bool { return blank(r) || selector(r) }
	if strings.IndexFunc(s, nothing) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if nothing(r) {
			c := strconv.QuoteToASCII(string(r))
			b.WriteString(c[1 : len(c)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Command is a command as one could type it: a shell does nothing with the words. Those that are not printable are in
// the form $'…' of bash, zsh and others, in which only the backslash means anything.
func Command(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		switch {
		case a == "" || strings.ContainsAny(a, " \t\"'`$&|;<>()*?[]#~!{}\\") && strings.IndexFunc(a, odd) < 0:
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		case strings.IndexFunc(a, odd) >= 0:
			text := quote(a)
			text = text[1 : len(text)-1]
			words[i] = "$'" + strings.ReplaceAll(text, "'", `\'`) + "'"
		default:
			words[i] = a
		}
	}
	return strings.Join(words, " ")
}

// odd is for what cannot be seen in a word.
func odd(r rune) bool { return unprintable(r) || selector(r) }

// Failure is the text of an error: the step that failed, what with if there is something, and why.
func Failure(op, path, why string) string {
	if path != "" {
		op += " " + Quote(path)
	}
	return op + ": " + why
}
