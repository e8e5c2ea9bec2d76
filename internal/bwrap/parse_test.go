//go:build linux

package bwrap

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	if len(parseCases) < 150 {
		t.Fatalf("only %d cases", len(parseCases))
	}
	for _, tc := range parseCases {
		t.Run(short(tc.args), func(t *testing.T) {
			env := Env{ReadFD: tc.readFD()}
			if tc.env != nil {
				tc.env(&env)
			}
			got, err := Parse(tc.words(), env)
			if text := errText(err); text != tc.err {
				t.Fatalf("error %q, want %q", text, tc.err)
			}
			want := new(Config)
			if tc.err == "" {
				want.Command = []string{"true"}
			}
			if tc.want != nil {
				tc.want(want)
			}
			for _, name := range strings.Fields(tc.warn) {
				name, prefix := strings.CutPrefix(name, "<")
				want.Warnings = append(want.Warnings, Warning{"Only the last " + name + " option will take effect", prefix})
			}
			if tc.err != "" && tc.want == nil {
				// What was read before the error is not said for every case.
				if len(got.Warnings)+len(want.Warnings) > 0 && !reflect.DeepEqual(got.Warnings, want.Warnings) {
					t.Errorf("warnings %+v, want %+v", got.Warnings, want.Warnings)
				}
				if got.Command != nil {
					t.Errorf("an error and the command %q", got.Command)
				}
				return
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%s\nwant\n%s", diffable(got), diffable(want))
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func short(s string) string {
	if s == "" {
		return "(nothing)"
	}
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}

func diffable(c *Config) string {
	return strings.ReplaceAll(fmt.Sprintf("%+v", *c), " ", "\n")
}

// Every option has a case in which it is accepted.
func TestCasesCoverTheTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, tc := range parseCases {
		for _, w := range append(tc.words(), strings.Split(strings.Join(tc.contents(), "\x00"), "\x00")...) {
			if tc.err == "" || strings.HasSuffix(tc.err, "requested") {
				seen[w] = true
			}
		}
	}
	for i := range table {
		name := table[i].Name
		if table[i].Prefix {
			name += "force-openat-fallback"
		}
		if !seen[name] {
			t.Errorf("no case uses %s and succeeds", name)
		}
	}
}

func TestTable(t *testing.T) {
	ids, names := make(map[optionID]string), make(map[string]bool)
	for i := range table {
		o := &table[i]
		if other, ok := ids[o.id]; ok {
			t.Errorf("%s and %s are the same option", o.Name, other)
		}
		ids[o.id] = o.Name
		if names[o.Name] {
			t.Errorf("%s is there twice", o.Name)
		}
		names[o.Name] = true
		if !strings.HasPrefix(o.Name, "--") || len(o.Name) < 3 {
			t.Errorf("%q is not a name of an option", o.Name)
		}
		if o.Help == "" || o.Group >= groupCount || o.Group.String() == "" {
			t.Errorf("%s lacks its help or its group", o.Name)
		}
		if strings.HasSuffix(o.Help, ".") || strings.TrimSpace(o.Help) != o.Help {
			t.Errorf("%s: the help %q has something at its end", o.Name, o.Help)
		}
		if got, want := o.NArgs(), len(strings.Fields(o.Args)); got != want || got > 3 {
			t.Errorf("%s takes %d words, NArgs says %d", o.Name, want, got)
		}
		if o.LastWins && o.NArgs() != 1 {
			t.Errorf("%s: the last of several wins, but it takes no value", o.Name)
		}
	}
	if len(ids) != int(optCount) {
		t.Errorf("%d options in the table, %d known to the parser", len(ids), optCount)
	}
	for _, extensions := range []bool{false, true} {
		for _, o := range Options(extensions) {
			if o.Ours && !extensions {
				t.Errorf("%s is among bubblewrap's options", o.Name)
			}
		}
	}
}

// The options that warn when they are repeated do, and no others.
func TestLastWins(t *testing.T) {
	for i := range table {
		o := &table[i]
		if o.NArgs() != 1 || o.Prefix {
			continue
		}
		value := "3"
		switch o.id {
		case optUIDMap, optGIDMap:
			value = "0:0:1"
		case optArgs, optPerms, optSize, optArgv0, optROOverlay, optTmpOverlay:
			continue
		}
		env := Env{
			Extensions: true,
			CheckLabel: func(string) error { return nil },
			ReadFD:     func(int) ([]byte, error) { return []byte("12345678"), nil },
		}
		c, _ := Parse([]string{o.Name, value, o.Name, value, "true"}, env)
		if got := len(c.Warnings); got != map[bool]int{true: 1}[o.LastWins] {
			t.Errorf("%s twice: %d warnings; LastWins is %v", o.Name, got, o.LastWins)
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := Parse([]string{"--args", "3", "true"}, Env{})
	if !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v hides the system's error", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Text != "Can't read --args data" {
		t.Errorf("%#v is not the error it should be", err)
	}
	for args, want := range map[string]Stop{"--help": StopHelp, "--version": StopVersion, "--": StopNoCommand} {
		if _, err := Parse([]string{args}, Env{}); !errors.Is(err, want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{syscall.EPERM, "Operation not permitted"},
		{syscall.EIO, "Input/output error"},
		{syscall.ENOSTR, "Device not a stream"},
		{syscall.ERANGE, "Numerical result out of range"},
		{fmt.Errorf("open x: %w", syscall.ENOENT), "No such file or directory"},
		{errors.New("something else"), "something else"},
	} {
		if got := Strerror(tc.err); got != tc.want {
			t.Errorf("Strerror(%v) = %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestMessage(t *testing.T) {
	for _, tc := range []struct {
		program  string
		prefix   bool
		severity int
		want     string
	}{
		{"bwrap", false, SeverityError, "bwrap: x\n"},
		{"bwrap", true, SeverityError, "<3>bwrap: x\n"},
		{"bwrap", true, SeverityWarning, "<4>bwrap: x\n"},
		{"nsrun", false, SeverityError, "nsrun: x\n"},
	} {
		if got := Message(tc.program, tc.prefix, tc.severity, "x"); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, extensions := range []bool{false, true} {
		text := Usage("/x/bwrap", extensions)
		if !strings.HasPrefix(text, "usage: /x/bwrap [OPTIONS...] [--] COMMAND [ARGS...]\n") {
			t.Errorf("begins with %q", text[:60])
		}
		if !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") {
			t.Error("does not end with one newline")
		}
		for _, line := range strings.Split(text, "\n") {
			if len(line) > 110 || strings.TrimRight(line, " ") != line || strings.Contains(line, "\t") {
				t.Errorf("the line %q is too long or has blanks where none belong", line)
			}
		}
		for i := range table {
			o := &table[i]
			head := "\n    " + o.Name
			if o.Args != "" {
				head += " " + o.Args
			}
			at := strings.Index(text, head)
			for at >= 0 && text[at+len(head)] != ' ' && text[at+len(head)] != '\n' {
				next := strings.Index(text[at+1:], head)
				if next < 0 {
					at = -1
					break
				}
				at += 1 + next
			}
			if want := !o.Hidden && (extensions || !o.Ours); (at >= 0) != want {
				t.Errorf("extensions %v: %s shown: %v", extensions, o.Name, at >= 0)
			}
		}
	}
}

func TestParentMode(t *testing.T) {
	for perms, want := range map[uint32]uint32{
		0: 0o700, 0o600: 0o700, 0o700: 0o700, 0o755: 0o755, 0o666: 0o755,
		0o640: 0o750, 0o604: 0o705, 0o1777: 0o755, 0o711: 0o755,
	} {
		op := SetupOp{Perms: perms}
		if got := op.ParentMode(); got != want {
			t.Errorf("parents of %#o get %#o, want %#o", perms, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	base := []string{"A=1", "B=2", "A=3", "=odd", "C"}
	for _, tc := range []struct {
		args, want string
	}{
		{"", "A=1 B=2 A=3 =odd C"},
		{"--setenv A x", "A=x B=2 A=3 =odd C"},
		{"--setenv D x --setenv D y", "A=1 B=2 A=3 =odd C D=y"},
		{"--unsetenv A", "B=2 =odd C"},
		{"--unsetenv A --setenv A x", "B=2 =odd C A=x"},
		{"--unsetenv C", "A=1 B=2 A=3 =odd C"},
		{"--setenv C x", "A=1 B=2 A=3 =odd C C=x"},
		{"--setenv Z x --clearenv --setenv Y z", "Y=z"},
		{"--clearenv", ""},
		{"--unsetenv B --unsetenv B", "A=1 A=3 =odd C"},
	} {
		c, err := Parse(append(strings.Fields(tc.args), "true"), Env{})
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Join(base, " ")
		if got := strings.Join(c.Environment(base), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
		}
		if strings.Join(base, " ") != before {
			t.Fatalf("%s: wrote to the environment it was given", tc.args)
		}
	}
}

// The parser does not change the caller's words.
func TestParseLeavesItsArguments(t *testing.T) {
	args := strings.Fields("--overlay-src a --overlay-src b --ro-overlay c --setenv A 1 true x")
	before := strings.Join(args, " ")
	if _, err := Parse(args, Env{}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(args, " ") != before {
		t.Errorf("Parse made it %q", args)
	}
}

func BenchmarkParse(b *testing.B) {
	var args []string
	for range 500 {
		args = append(args, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin")
	}
	args = append(args, "true")
	for b.Loop() {
		if _, err := Parse(args, Env{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseShort(b *testing.B) {
	args := strings.Fields("--unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --die-with-parent -- true")
	for b.Loop() {
		if _, err := Parse(args, Env{}); err != nil {
			b.Fatal(err)
		}
	}
}
