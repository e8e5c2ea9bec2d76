//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// model is the state of a terminal: all that decides how the next text looks, and what the terminal answers.
type model struct {
	state    map[string]string // what differs from the usual state
	saved    map[string]string // of ESC 7: attributes and character sets
	text     strings.Builder   // what is shown
	normal   map[string]string // saved where the other screen was entered
	sequence []byte            // one that is not complete
	str      bool              // that is a string
}

func newModel() *model {
	return &model{state: map[string]string{}, saved: map[string]string{}, normal: map[string]string{}}
}

// String returns what differs from the usual state.
func (m *model) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m.state)) {
		list = append(list, name+"="+m.state[name])
	}
	if len(m.sequence) > 0 {
		list = append(list, fmt.Sprintf("in %q", m.sequence))
	}
	return strings.Join(list, " ")
}

func (m *model) set(name, value string) {
	if delete(m.state, name); value != "" {
		m.state[name] = value
	}
}

// cursorState is what is saved with the cursor.
func (m *model) cursorState() map[string]string {
	out := map[string]string{}
	for k, v := range m.state {
		if k == "sgr" || k == "?6" || strings.HasPrefix(k, "G") {
			out[k] = v
		}
	}
	return out
}

func (m *model) restore(from map[string]string) {
	for k := range m.cursorState() {
		delete(m.state, k)
	}
	maps.Copy(m.state, from)
}

func (m *model) write(text string) {
	for i := range len(text) {
		m.byte(text[i])
	}
}

func (m *model) byte(b byte) {
	switch {
	case b == 0x18 || b == 0x1a:
		m.sequence, m.str = nil, false
	case m.str && b == 0x1b:
		m.sequence = append(m.sequence, b)
	case m.str && len(m.sequence) > 0 && m.sequence[len(m.sequence)-1] == 0x1b:
		if b == '\\' {
			m.command(string(m.sequence[1 : len(m.sequence)-1]))
		}
		m.sequence, m.str = []byte{0x1b}, false // ST, or another sequence
		m.byte(b)
	case m.str && b == 7 && m.sequence[1] == ']':
		m.command(string(m.sequence[1:]))
		m.sequence, m.str = nil, false
	case m.str:
		m.sequence = append(m.sequence, b)
	case b == 0x1b:
		m.sequence = []byte{b}
	case len(m.sequence) > 0:
		if b < 0x20 {
			return
		}
		m.sequence = append(m.sequence, b)
		m.escape()
	case b == 0x0e:
		m.set("GL", "1")
	case b == 0x0f:
		m.set("GL", "")
	case m.state["printer"] == "":
		m.text.WriteByte(b)
	}
}

// escape looks whether a sequence is complete, and does it.
func (m *model) escape() {
	s := string(m.sequence[1:])
	if m.state["vt52"] != "" {
		if s == "<" {
			m.set("vt52", "")
		}
		m.sequence = nil
		return
	}
	switch final := s[len(s)-1]; {
	case s[0] == '[':
		if len(s) > 1 && final >= 0x40 {
			m.control(s[1:len(s)-1], final)
			m.sequence = nil
		}
		return
	case strings.ContainsAny(s[:1], "]PX^_"):
		m.str = true
		return
	case s[0] >= 0x20 && s[0] < 0x30: // intermediate
		if len(s) < 2 {
			return
		}
		switch i := strings.IndexByte("()*+", s[0]); {
		case i >= 0:
			m.set("G"+strconv.Itoa(i), strings.TrimSuffix(s[1:], "B"))
		case s == "%@":
			m.set("Gutf8", "off")
		case s == "%G":
			m.set("Gutf8", "")
		}
	case s == "7":
		m.saved = m.cursorState()
	case s == "8":
		m.restore(m.saved)
	case s == "=":
		m.set("keypad", "application")
	case s == ">":
		m.set("keypad", "")
	case s == "n", s == "o":
		m.set("GL", s)
	}
	m.sequence = nil
}

// command does what a string says (OSC). Colors are known by the number of the command that sets them.
func (m *model) command(s string) {
	number, arg, _ := strings.Cut(strings.TrimPrefix(s, "]"), ";")
	switch n, _ := strconv.Atoi(number); {
	case number == "8":
		_, link, _ := strings.Cut(arg, ";")
		m.set("link", link)
	case n == 4 || n == 5 || n >= 10 && n <= 19:
		m.set("color "+number, arg)
	case n == 104 || n == 105 || n >= 110 && n <= 119:
		m.set("color "+strconv.Itoa(n-100), "")
	case strings.HasPrefix(number, "P"): // in truth it ends with seven digits
		m.set("palette", number[1:])
	case number == "R":
		m.set("palette", "")
	}
}

// defaults are modes that are usually on.
var defaults = map[string]bool{"?7": true, "?25": true, "12": true}

func (m *model) control(params string, final byte) {
	switch final {
	case 'm':
		switch {
		case params == ">":
			m.set("other keys", "")
			m.set("cursor keys", "")
		case strings.HasPrefix(params, ">1;"):
			m.set("cursor keys", params)
		case strings.HasPrefix(params, ">"):
			m.set("other keys", strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(params, ">4"), ";"), "0"))
		case params == "" || params == "0":
			m.set("sgr", "")
		default:
			m.set("sgr", params)
		}
	case 'h', 'l':
		private := ""
		if strings.HasPrefix(params, "?") {
			private, params = "?", params[1:]
		}
		for p := range strings.SplitSeq(params, ";") {
			m.mode(private+p, final == 'h')
		}
	case 'p':
		if params == "!" {
			maps.DeleteFunc(m.state, func(name, _ string) bool { return name == "sgr" || strings.HasPrefix(name, "G") })
		}
	case 'r':
		m.set("region", strings.Trim(params, "0;"))
	case 's':
		m.set("margins", params)
	case '}':
		m.set("status line", strings.Trim(params, "0$"))
	case 'i':
		on := strings.HasSuffix(params, "5")
		m.set("printer", map[bool]string{true: "on"}[on])
	case 'q':
		if strings.HasSuffix(params, " ") {
			m.set("cursor", strings.Trim(params, " 0"))
		} else if strings.HasSuffix(params, `"`) {
			m.set("protected", strings.Trim(params, `"0`))
		}
	case 'u':
		if strings.ContainsAny(params, "<=>") {
			m.set("kitty", strings.Trim(strings.TrimPrefix(strings.Trim(params, "<=>"), "99"), "0"))
		}
	}
}

func (m *model) mode(name string, on bool) {
	switch name {
	case "?2":
		if !on {
			m.set("vt52", "on")
		}
		return
	case "?1049":
		if on {
			m.normal = m.cursorState()
		} else if m.state[name] != "" {
			m.restore(m.normal)
		} else {
			m.restore(m.saved) // as xterm has it
		}
	case "?69":
		if !on {
			m.set("margins", "")
		}
	}
	m.set(name, "")
	if on != defaults[name] {
		m.set(name, map[bool]string{true: "on", false: "off"}[on])
	}
}

// hostile are what commands leave in a terminal. What is not complete takes a command of its
// own.
var hostile = []struct {
	whole bool
	list  []string
}{
	{true, []string{"\x1b[8m", "\x1b[30;40m", "\x1b(0", "\x1b)0\x0e", "\x1bn", "\x1bo", "\x1b[1\"q", "\x1b[?25l", "\x1b[?5h", "\x1b[?7l", "\x1b[4h", "\x1b[20h", "\x1b[12l", "\x1b[2h", "\x1b[3 q"}},
	{true, []string{"\x1b[?1049h", "\x1b[?69h\x1b[3;4s", "\x1b[?6h\x1b[5;6r", "\x1b[8m\x1b(0", "\x1b7", "\x1b[?2026h"}},
	{true, []string{"\x1b]4;1;#000\x1b\\", "\x1b]5;0;#000\x07", "\x1b]10;#000\x07", "\x1b]11;#000\x07", "\x1b]12;#000\x07", "\x1b]13;#000\x07", "\x1b]14;#000\x07",
		"\x1b]17;#000\x07", "\x1b]19;#000\x07", "\x1b]8;;http://192.0.2.1\x1b\\", "\x1b]P0ffffff\x1b\\"}},
	{true, []string{"\x1b[5;6r", "\x1b[8m\x1b7\x1b[0m\x1b[?25l"}},
	{true, []string{"\x1b[?9h", "\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h\x1b[?1006h", "\x1b[?1015h", "\x1b[?1016h", "\x1b[?1004h", "\x1b[?2004h", "\x1b[?2048h",
		"\x1b[?1h", "\x1b=", "\x1b[>1u", "\x1b[=5u", "\x1b[>4;2m", "\x1b[>1;3m", "\x1b[?9001h", "\x1b[?2031h"}},
	{false, []string{"\x1b]0;title", "\x1b]52;c;", "\x1bPq", "\x1b_x", "\x1b^x", "\x1bXx", "\x1b[", "\x1b[3", "\x1b", "\x1b(", "\x1b]0;title\x1b", "\x1b[5i", "\x1b[?5i", "\x1b[1$}", "\x1b[?2l", "\x1b%@"}},
}

// octals is a text as printf(1) takes it.
func octals(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "\\0%03o", text[i])
	}
	return b.String()
}

// TestModesLeftOn: whatever a command leaves enabled in the terminal, what nsrun prints next is readable, and what is
// typed next arrives unchanged.
func TestModesLeftOn(t *testing.T) {
	testenv.Once(t)
	run := func(seq string) {
		t.Helper()
		control := newModel()
		control.write(seq)
		control.write("nsrun: A new")
		if control.String() == "" && control.text.String() == "nsrun: A new" {
			t.Errorf("control: %q leaves no mode on", seq)
		}
		s := atTerminal(t, "run", "--", "sh", "-c", `printf %b "$1"; : >new`, "sh", octals(seq))
		s.Await("[c/d/K] ")
		s.Type("d\n")
		s.Await(" takes it back\r\n")
		s.ends(t, 0)
		screen := s.Screen()
		if !strings.HasPrefix(screen, seq) {
			t.Errorf("%q: the terminal got %q", seq, screen)
		}
		m := newModel()
		before, after, found := strings.Cut(screen, "nsrun: A new")
		if m.write(before); !found || m.String() != "" {
			t.Errorf("%q: nsrun prints its first line while %s; the terminal got %q", seq, m, screen)
		}
		m.write("nsrun: A new" + after)
		if got := m.text.String(); !strings.Contains(got, "nsrun: A new\r\n") || !strings.Contains(got, "[c/d/K] d\r\nnsrun: discarded 1 change") {
			t.Errorf("%q: shown is %q", seq, got)
		}
	}
	for _, group := range hostile {
		if group.whole {
			run(strings.Join(group.list, ""))
			continue
		}
		for _, seq := range group.list {
			run(seq)
		}
	}
}

// TestNothingToSay: if nsrun prints nothing, it writes nothing to the terminal.
func TestNothingToSay(t *testing.T) {
	for _, args := range [][]string{{"run", "-q", "--", "true"}, {"run", "-q", "--keep", "--", "touch", "new"}, {"run", "-q", "--direct", "--", "touch", "new"}} {
		s := atTerminal(t, args...)
		s.ends(t, 0)
		if got := s.Screen(); got != "" {
			t.Errorf("%q: %q", args, got)
		}
	}
}

// TestModesBesideOthers: if standard output is not the terminal, another program may draw on it. The window stays as it
// is, and nsrun's text still has the usual modes.
func TestModesBesideOthers(t *testing.T) {
	s := atTerminal(t, "run", "--keep", "--", "sh", "-c", `printf %b "$1" >&2; : >new`, "sh", octals("\x1b[?1049h\x1b[?1000h\x1b[8m\x1b(0\x1b]0;x"))
	s.Await("kept 1 change")
	s.ends(t, 0)
	m := newModel()
	before, _, _ := strings.Cut(s.Screen(), "nsrun: A new")
	if m.write(before); m.String() != "" {
		t.Errorf("nsrun's own output leaves modes on: %s", m)
	}
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	term := testenv.NewTerminal(t)
	c := exec.Command(bin+"/nsrun", "run", "--keep", "--", "sh", "-c", `printf %b "$1" >&2; : >new`, "sh", octals("\x1b[?1049h\x1b[?1000h\x1b[8m\x1b(0\x1b]0;x"))
	c.Dir, c.Env = dir+"/p", []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home"}
	term.Attach(c)
	c.Stdout = nil // /dev/null, as a pipe to a pager would be
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	m = newModel()
	term.Await("nsrun: kept")
	before, _, _ = strings.Cut(term.Screen(), "nsrun: A new")
	if m.write(before); m.String() != "?1000=on ?1049=on" {
		t.Errorf("beside another program: %s", m)
	}
}
