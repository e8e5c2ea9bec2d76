//go:build linux

package usage

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
)

// verb is one with a flag of each kind.
var verb = Verb{Name: "v", Args: "[flags] WORD", Short: "test", Flags: func(fs *flag.FlagSet) {
	fs.Bool("json", false, "print JSON")
	fs.Int("n", 0, "show `NUMBER`")
	fs.Duration("timeout", 0, "after this duration")
}}

// TestParse: flags stand wherever they like before "--".
func TestParse(t *testing.T) {
	for _, c := range []struct {
		args, rest []string
		json       bool
		n          int
	}{
		{nil, nil, false, 0},
		{[]string{"a", "b"}, []string{"a", "b"}, false, 0},
		{[]string{"--json", "a"}, []string{"a"}, true, 0},
		{[]string{"a", "-n", "3", "b", "--json"}, []string{"a", "b"}, true, 3},
		{[]string{"a", "--n=3", "--", "--json", "-x"}, []string{"a", "--json", "-x"}, false, 3},
		{[]string{"--", "--", "a"}, []string{"--", "a"}, false, 0},
		{[]string{"-"}, []string{"-"}, false, 0},
	} {
		var json bool
		var n int
		rest, status, ok := verb.Parse(c.args, func(fs *flag.FlagSet) {
			fs.BoolVar(&json, "json", false, "")
			fs.IntVar(&n, "n", 0, "")
		})
		if !ok || status != 0 || !slices.Equal(rest, c.rest) || json != c.json || n != c.n {
			t.Errorf("%q: %q, %v, %d, status %d, ok %v", c.args, rest, json, n, status, ok)
		}
	}
}

// TestWrong: an error about a flag names it as users type it, and suggests the flag that was probably meant.
func TestWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--jsn"}, `v: unknown flag --jsn; did you mean "--json"?`},
		{[]string{"--nothing-like-it"}, "v: unknown flag --nothing-like-it"},
		{[]string{"-n", "x"}, `v: invalid value "x" for flag -n: not a number`},
		{[]string{"--timeout", "x"}, `v: invalid value "x" for flag --timeout: not a duration like 10s or 5m`},
		{[]string{"--timeout"}, "v: flag needs an argument: --timeout"},
		{[]string{"--json", "-n", "--", "ls"}, "v: flag needs an argument: -n"},
		{[]string{"-n=3", "--timeout", "--"}, "v: flag needs an argument: --timeout"},
		{[]string{"--json=x"}, `v: invalid boolean value "x" for --json: the flag takes no value`},
	} {
		fs := verb.FlagSet()
		err := verb.Wrong(fs, Flags(fs, c.args))
		if err.Error() != c.want || advice.For(err) != "try: nsrun help v" {
			t.Errorf("%q: %v (%s), want %s", c.args, err, advice.For(err), c.want)
		}
	}
	fs := verb.FlagSet()
	if err := verb.Wrong(fs, fs.Parse([]string{"--help"})); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	if hint := advice.For(Errorf("help", "no such verb")); hint != "try: nsrun help" {
		t.Errorf("hint of help: %q", hint)
	}
}

// TestHelpFlag: what is told of a flag is broken between words, and the values to choose from are told once.
func TestHelpFlag(t *testing.T) {
	fs := flag.NewFlagSet("v", flag.ContinueOnError)
	fs.Bool("short", false, "do it")
	fs.String("mode", "", "use `this|that`, "+strings.Repeat("or so ", 12)+"at the end")
	fs.String("long-name", "", "the `NAME_OF_A_THING`")
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) { helpFlag(&b, f) })
	want := `  --long-name NAME_OF_A_THING
                         the NAME_OF_A_THING
  --mode WORD            use this|that, or so or so or so or so or so or so or so or so or
                         so or so or so or so at the end
  --short                do it
`
	if b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
}

func TestFlagName(t *testing.T) {
	for word, want := range map[string][2]string{"-n": {"n", "-n"}, "--json": {"json", "--json"}, "-json=x=y": {"json", "--json"}, "n": {"n", "-n"}} {
		if name := FlagName(word); name != want[0] || Dashed(name) != want[1] {
			t.Errorf("%s: %s, %s", word, name, Dashed(name))
		}
	}
}
