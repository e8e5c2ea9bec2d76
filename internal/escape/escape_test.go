//go:build linux

package escape

import "testing"

func TestEscape(t *testing.T) {
	for in, want := range map[string]struct{ printable, quote string }{
		"plain":      {"plain", "plain"},
		"ä b":        {"ä b", "ä b"},
		"":           {"", `""`},
		"a\x1b[2Jb":  {`a\x1b[2Jb`, `"a\x1b[2Jb"`},
		"a\nb\r":     {`a\nb\r`, `"a\nb\r"`},
		"\xff":       {`\xff`, `"\xff"`},
		"\u202e":     {`\u202e`, `"\u202e"`},
		`"`:          {`"`, `"\""`},
		"a ":         {"a ", `"a "`},
		" a":         {" a", `" a"`},
		"a -> b":     {"a -> b", `"a -> b"`},
		"a->b c":     {"a->b c", "a->b c"},
		"a\ufe0f":    {"a\ufe0f", `"a\ufe0f"`},
		"a\u3164b":   {`a\u3164b`, `"a\u3164b"`},
		"\u2800\x1b": {`\u2800\x1b`, `"\u2800\x1b"`},
	} {
		if got := Printable(in); got != want.printable {
			t.Errorf("Printable(%q) = %s, want %s", in, got, want.printable)
		}
		if got := Quote(in); got != want.quote {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want.quote)
		}
	}
	if got, want := Command([]string{"sh", "-c", "echo 'a'", "", "x\x1b"}), `sh -c 'echo '\''a'\''' '' "x\x1b"`; got != want {
		t.Errorf("Command: %s, want %s", got, want)
	}
	if got, want := Command([]string{"echo", " $x ", "a -> b"}), `echo ' $x ' 'a -> b'`; got != want {
		t.Errorf("Command: %s, want %s", got, want)
	}
	for path, want := range map[string]string{"": "open: why", "/a b": "open /a b: why", "/a\n\x1b": `open "/a\n\x1b": why`} {
		if got := Failure("open", path, "why"); got != want {
			t.Errorf("Failure(%q) = %s, want %s", path, got, want)
		}
	}
}
