//go:build linux

package manual

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/bwrap"
)

var runFlags = []Flag{{"C", "directory", "where"}, {"dir", "directory", "where"}, {"net", "none|host", `the "user's" [a:b] \ $(x)`}, {"q", "", "be quiet"}}

var someVerbs = []Verb{
	{Name: "run", Usage: "[flags] [--] COMMAND [ARG…]", Short: "run it", Flags: runFlags},
	{Name: "commit", Usage: "[-q] [SESSION] [PATH…]", Short: "take it", Long: "First… second. .git stays."},
	{Name: "end", Short: "end"},
	{Name: "policy", Usage: "[flags]", Short: "show it", Flags: append([]Flag{{"json", "", "print JSON"}}, runFlags...)},
}

func pages() map[string]string {
	all := map[string]string{"man": Man(someVerbs), "markdown": Markdown(someVerbs)}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		all[shell], _ = Completion(shell, someVerbs)
	}
	return all
}

// Everything in the tables is in all that is made of them.
func TestNothingIsMissing(t *testing.T) {
	for name, text := range pages() {
		if m := regexp.MustCompile(`@[A-Z]+@`).FindString(text); m != "" {
			t.Errorf("%s: %s is still there", name, m)
		}
		plain := strings.NewReplacer(`\-`, "-", `\e`, `\`).Replace(text)
		if n := strings.Count(text, "also takes all flags of nsrun run"); (name == "man" || name == "markdown") && (n != 1 || strings.Count(text, "be quiet")+strings.Count(text, "Be quiet") > 1) {
			t.Errorf("%s: the flags of run are listed again: %s", name, text)
		}
		has := func(word string) bool {
			return regexp.MustCompile(`(?m)(^|[^\w-])` + regexp.QuoteMeta(word) + `($|[^\w-])`).MatchString(plain)
		}
		for _, o := range bwrap.Options(true) {
			option := o.Name
			if name == "man" {
				option = ".It Fl " + o.Name[1:]
			}
			if has(option) == o.Hidden {
				t.Errorf("%s: %s is there: %v", name, o.Name, !o.Hidden)
			}
			if help := strings.ReplaceAll(o.Help, "\n", " "); name == "fish" && !o.Hidden &&
				!strings.Contains(plain, strings.ReplaceAll(help, "'", `\'`)) {
				t.Errorf("%s: %s has no description", name, o.Name)
			}
		}
		for _, v := range someVerbs {
			if !has(v.Name) {
				t.Errorf("%s: the verb %s is missing", name, v.Name)
			}
			for _, f := range v.Flags {
				flag := f.Typed()
				if name == "man" {
					flag = "Fl " + flag[1:]
				}
				if !has(flag) {
					t.Errorf("%s: the flag %s is missing", name, flag)
				}
			}
		}
		if name != "man" && name != "markdown" && !has("CAP_SYS_ADMIN") {
			t.Errorf("%s: no capabilities", name)
		}
	}
	if text, ok := Completion("tcsh", someVerbs); ok || text != "" {
		t.Errorf("there is something for tcsh: %q", text)
	}
}

func TestUnknown(t *testing.T) {
	if list := Unknown(someVerbs); len(list) > 0 {
		t.Errorf("kind.go does not know %q: add how completions complete it", list)
	}
	odd := []Verb{{Name: "v", Usage: "[-q] [ODD…]", Flags: []Flag{{Name: "f", Arg: "odd"}, {Name: "q"}}}}
	if list := Unknown(odd); !slices.Equal(list, []string{"ODD… of v", "odd of -f"}) {
		t.Errorf("unknown are %q", list)
	}
}

func TestManText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"print JSON", "Print JSON.\n"},
		{"One. Two --three (--four)", "One.\nTwo \\-\\-three (\\-\\-four).\n"},
		{".git is read-only", "\\&.git is read-only.\n"},
		{"A. .git", "A.\n\\&.git.\n"},
		{`with \ and…`, "With \\e and...\n"},
		{strings.Repeat("word ", 20), "Word" + strings.Repeat(" word", 14) + "\n" + strings.TrimSuffix(strings.Repeat("word ", 5), " ") + ".\n"},
	} {
		if got := manText(c.text); got != c.want {
			t.Errorf("%q is\n%q, want\n%q", c.text, got, c.want)
		}
	}
}

func TestUsage(t *testing.T) {
	if got := (&someVerbs[1]).rest(); !slices.Equal(got, []string{"session", "path+"}) {
		t.Errorf("commit takes %q", got)
	}
	if got := (&someVerbs[0]).rest(); !slices.Equal(got, []string{"command", "none+"}) {
		t.Errorf("run takes %q", got)
	}
	if got := manUsage("[--] bash|fish [ARG…]", "Oo ", " Oc"); !slices.Equal(got, []string{`Oo Fl \- Oc`, "Cm bash | fish", "Oo Ar ARG ... Oc"}) {
		t.Errorf("the usage is %q", got)
	}
}

func TestQuoting(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{markdownCell("--x none|host", "a*\n[b]"), "`--x none\\|host` | a\\* \\[b\\] |\n"},
		{zshSpec("--x", `a 'b' [c]: \d`, []string{"A:B"}, true), `'*--x[a '\''b'\'' \[c\]\: \\d]:A\:B: '`},
		{zshSpec("--x", "y", []string{"CAP", "none|host"}, false), `'--x[y]:CAP:_nsrun_caps:none|host:(none host)'`},
		{strings.TrimSpace(fishWord("-x", `it's \ a`)), "'-x\t" + `it\'s \\ a'`},
		{manLiteral(`-a "b\`), `\-a \(dqb\e`},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
