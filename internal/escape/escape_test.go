//go:build linux

package escape

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

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
	if got, want := Command([]string{"sh", "-c", "echo 'a'", "", "x\x1b"}), `sh -c 'echo '\''a'\''' '' $'x\x1b'`; got != want {
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

// TestCommandInShell: a person copies what nsrun says to try. Nothing in a hostile name is then executed: a shell has
// the same words. The control is the name in double quotes.
func TestCommandInShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		testenv.Skip(t, "bash", "bash is not installed")
	}
	printed := func(text string) string {
		c := exec.Command(bash, "-c", "printf '%s\\0' "+text)
		c.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // in others, \u is no character
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return string(out)
	}
	const hostile = "a\x1b$(echo executed)"
	if got := printed(quote(hostile)); !strings.Contains(got, "executed") {
		t.Errorf("the control executes nothing: %q", got)
	}
	pieces := []string{"$(echo executed)", "`echo executed`", "$HOME", "'", `"`, `\`, "\x1b", "\n", "\r", "\t", " ", "!", "\u202e", "\ufe0f", "\U000e0041", "\xff", "\u2028", "0", "f", "ä", "*", "~", "-", "$'", "\x07"}
	const words = 400
	var list []string
	for range words {
		var b strings.Builder
		for range rand.IntN(6) {
			b.WriteString(pieces[rand.IntN(len(pieces))])
		}
		list = append(list, b.String())
	}
	list = append(list, hostile)
	if got, want := printed(Command(list)), strings.Join(list, "\x00")+"\x00"; got != want {
		t.Errorf("%s\nis for bash %q\nnot %q", Command(list), got, want)
	}
}
