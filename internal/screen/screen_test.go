//go:build linux

package screen

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// panicEnv makes the test binary open a screen and panic.
const panicEnv = "NSRUN_SCREEN_TEST_PANIC"

func TestMain(m *testing.M) {
	if os.Getenv(panicEnv) != "" {
		panics()
	}
	testenv.Main(m)
}

func panics() {
	s, err := Open()
	if err != nil {
		panic(err)
	}
	if err := s.Draw([]Line{{{Text: "drawn"}}}); err != nil {
		panic(err)
	}
	go func() {
		defer s.Guard()
		<-s.Events()
		panic("as the test wants it")
	}()
	select {}
}

// TestPanic: whichever goroutine panics, the terminal is given back before that is printed.
func TestPanic(t *testing.T) {
	testenv.Leaks(t)
	term := testenv.NewTerminal(t)
	mode := func() unix.Termios {
		m, err := unix.IoctlGetTermios(int(term.Slave().Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	before := mode()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{panicEnv + "=1", "TERM=xterm"}
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	term.Await("drawn")
	term.Type("x")
	if err := c.Wait(); err == nil {
		t.Fatal("the program did not panic")
	}
	term.Await("as the test wants it")
	if out := term.Screen(); !strings.Contains(out, end) || strings.Index(out, end) > strings.Index(out, "as the test wants it") {
		t.Errorf("the terminal got %q", out)
	}
	if got := mode(); got != before {
		t.Errorf("the terminal is left as %v, was %v", got, before)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in          string
		from, width int
		tabs        int
		want        string
	}{
		{"plain", 0, 10, -1, "plain"},
		{"plain", 0, 3, -1, "pla"},
		{"plain", 2, 2, -1, "ai"},
		{"plain", 9, 2, -1, ""},
		{"plain", 0, 0, -1, ""},
		{"a\tb", 0, 20, 0, "a       b"},
		{"+\tb", 0, 20, 1, "+        b"},
		{"+a\tb", 0, 20, 1, "+a       b"},
		{"a\tb", 3, 20, 0, "     b"},
		{"a\tb", 0, 20, -1, `a\tb`},
		{"\x1b[31m", 0, 20, 1, `\x1b[31m`},
		{"\x1b[31m", 2, 4, 1, `1b[3`},
		{"\x00\r\n\x7f\u0085\u009b", 0, 40, 1, `\x00\r\n\x7f\u0085\u009b`},
		{"\xff\xc3", 0, 20, 1, `\xff\xc3`},
		{"\ufffd", 0, 20, 1, `\ufffd`},
		{"\u202e\u200b\u00ad\u3164", 0, 40, 1, `\u202e\u200b\u00ad\u3164`},
		{"漢字", 0, 4, -1, "漢字"},
		{"漢字", 0, 3, -1, "漢 "},
		{"漢字", 1, 3, -1, " 字"},
		{"漢字", 1, 1, -1, " "},
		{"e\u0301e\u0301", 0, 1, -1, "e\u0301"},
		{"e\u0301e\u0301", 1, 1, -1, "e\u0301"},
		{"\u0301", 0, 9, -1, `\u0301`},
		{"e\u0301\u0301\u0301\u0301", 0, 9, -1, "e\u0301\u0301\u0301" + `\u0301`},
	} {
		if got := Fit(c.in, 0, c.from, c.width, c.tabs).Plain(); got != c.want {
			t.Errorf("Fit(%q, %d, %d, %d) = %q, want %q", c.in, c.from, c.width, c.tabs, got, c.want)
		}
	}
}

// TestEscapeStyle: an escape does not look as if the name itself had it.
func TestEscapeStyle(t *testing.T) {
	line := Fit("a\x1b"+`\x1b`, Bold, 0, 20, -1)
	if len(line) != 3 || line[0].Style != Bold || line[1].Style != Bold|Reverse || line[2].Style != Bold {
		t.Errorf("%+v", line)
	}
}

func TestFitEnd(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcdef", 4, "…def"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"漢字漢字", 5, "…漢字"}, {"漢字漢字", 4, "… 字"}} {
		if got := FitEnd(c.in, 0, c.width).Plain(); got != c.want {
			t.Errorf("FitEnd(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // keys, with spaces between them
	}{
		{"jG ?", "j G space ?"}, {"\x03\x04\x1a", "ctrl-c ctrl-d ctrl-z"},
		{"\r\n\t\x7f\x08", "enter enter tab backspace backspace"},
		{"\x1b[A\x1b[B\x1bOC\x1bOD", "up down right left"}, {"\x1b[1;5A", "up"},
		{"\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[7~\x1b[8~\x1bOH\x1bOF", "home end home end home end home end"},
		{"\x1b[5~\x1b[6~\x1b[2~\x1b[3~\x1b[Z", "pgup pgdn insert delete shift-tab"},
		{"\x1b", "esc"}, {"\x1b\x1b", "esc esc"}, {"\x1b[99~j", "j"}, {"\x1b[?1;2cj", "j"}, {"\x1b[[Aj", "j"}, {"\x1bxj", "j"},
		{"ü漢", "ü 漢"}, {"\xffj\xc3", "j"}, {"\x00j", "j"}, {"\u202ej", "j"},
		{pasteBegin + "y\x1b[Ac\r" + pasteEnd + "j", "j"},
		{pasteBegin + "yc", ""},
		// What a terminal answers to questions of a command.
		{"\x1b]11;rgb:aaaa/cccc/dddd\x1b\\j", "j"}, {"\x1b]lacy\x07j", "j"}, {"\x1bP>|acy(1)\x1b\\j", "j"}, {"\x1b_Gac\x1b[A", "up"}, {"\x1b]52;c;acy", ""},
		{"\x1bP", ""},
	} {
		var got []string
		for b := []byte(c.in); len(b) > 0; {
			in, n := decode(b, true)
			if n == 0 {
				break
			}
			if in.key != "" {
				got = append(got, string(in.key))
			}
			b = b[n:]
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%q: keys %q, want %q", c.in, g, c.want)
		}
	}
	in, _ := decode([]byte(pasteBegin+"text\x1b[A"+pasteEnd), false)
	if in.paste != "text\x1b[A" {
		t.Errorf("pasted: %q", in.paste)
	}
	for _, half := range []string{"\x1b", "\x1b[", "\x1b[1;5", "\x1bO", "\xe6\xbc", "\x1b]11;rgb:aa", "\x1b]11;rgb:aa\x1b", pasteBegin + "x" + pasteEnd[:3]} {
		if _, n := decode([]byte(half), false); n != 0 {
			t.Errorf("%q counts as complete", half)
		}
	}
}

// FuzzText: whatever it is, what comes out is harmless, and as wide as it says.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e漢e\u0301\xff\t", 3, 7)
	f.Fuzz(func(t *testing.T, s string, from, width int) {
		from, width = from&0xff, width&0xff
		for _, line := range []Line{Fit(s, 0, from, width, 1), Fit(s, 0, from, width, -1), FitEnd(s, 0, width)} {
			col := 0
			for _, span := range line {
				col += Width(span.Text)
				for i, r := range span.Text {
					if r == utf8.RuneError || !unicode.IsPrint(r) {
						t.Fatalf("%q: %q at %d of %q", s, r, i, span.Text)
					}
				}
			}
			if col > width {
				t.Fatalf("%q: %d columns of %d", s, col, width)
			}
			again := Line{}
			for _, span := range line {
				again = append(again, Fit(span.Text, span.Style, 0, width, -1)...)
			}
			if again.Plain() != line.Plain() {
				t.Fatalf("%q: %q is %q the second time", s, line.Plain(), again.Plain())
			}
		}
	})
}

// FuzzDecode: everything is taken in the end, but the beginning of a pasted text.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x1b[1;5Aj\x1b\x1b[200~x\x1b[201~\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			_, n := decode(b, true)
			if n == 0 {
				if !strings.HasPrefix(string(b), pasteBegin) {
					t.Fatalf("%q is not taken", b)
				}
				return
			}
			if n > len(b) {
				t.Fatalf("%d of %q", n, b)
			}
			b = b[n:]
		}
	})
}
