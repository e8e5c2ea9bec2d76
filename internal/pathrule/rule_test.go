package pathrule_test

import (
	"path"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/rulecases"
)

const project, home = "/w/p", "/w/home"

func variable(name string) string {
	return map[string]string{"HOME": home, "XDG_CONFIG_HOME": home + "/.config"}[name]
}

// at is the path that a case means.
func at(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return path.Join(home, rest)
	}
	return path.Join(project, name)
}

func rules(t *testing.T, texts []string) (list []pathrule.Rule) {
	t.Helper()
	for _, text := range texts {
		kind, pattern, _ := strings.Cut(text, " ")
		p, err := pathrule.Parse(pathrule.Anchor(project, pattern), variable)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, pathrule.Rule{Access: map[string]pathrule.Access{"rw": pathrule.Write, "ro": pathrule.Show, "block": pathrule.Block}[kind], Pattern: p})
	}
	return list
}

var words = [...]string{pathrule.NoAccess: "-", pathrule.Write: "rw", pathrule.Show: "ro", pathrule.Block: "hidden"}

// TestVerdict: policies, and what they say about paths. TestRuleCases does the same in sandboxes.
func TestVerdict(t *testing.T) {
	for _, c := range rulecases.All {
		list := rules(t, c.Rules)
		for name, want := range c.Want {
			if got := words[pathrule.Verdict(list, at(name))]; got != want {
				t.Errorf("%s: %q: %s is %s, want %s", c.Name, c.Rules, name, got, want)
			}
		}
	}
}

// TestLater: names that are not there yet, as a policy decides them.
func TestLater(t *testing.T) {
	list := rules(t, []string{"block **/.env", "block !examples", "block build/secret", "ro build/secret/public"})
	for name, want := range map[string]string{
		"new/.env": "hidden", "new/er/.env/x": "hidden", "examples/new/.env": "-", "build/secret": "hidden", "build/secret/public/f": "ro", "build/secrets": "-",
	} {
		if got := words[pathrule.Verdict(list, at(name))]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestQuote: what is quoted means itself alone, and so does a directory that a relative pattern lies in.
func TestQuote(t *testing.T) {
	for _, name := range []string{"/a", "/a b", "/*", "/[a-b]", `/\`, "/$HOME", "/~", "/!x", "/a/**/b", "/é?"} {
		for _, text := range []string{pathrule.Quote(name), pathrule.Anchor(name, "x"), "!" + pathrule.Quote(name)} {
			p, err := pathrule.Parse(text, variable)
			base, literal := p.Base()
			if want := strings.TrimSuffix(base, "/x"); err != nil || !literal || want != name || p.Except != (text[0] == '!') {
				t.Errorf("%q is %q: %s, %t, %v", name, text, base, literal, err)
			}
		}
	}
}

// FuzzParse: for every pattern and each path that it matches, Below holds for the directories above that path. A quoted
// path matches itself.
func FuzzParse(f *testing.F) {
	for _, c := range rulecases.All {
		for _, text := range c.Rules {
			_, pattern, _ := strings.Cut(text, " ")
			f.Add(pathrule.Anchor(project, pattern), "/w/p/a/.env")
		}
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := pathrule.Parse(text, variable)
		if err != nil {
			return
		}
		name = path.Join("/", name)
		base, literal := p.Base()
		if !path.IsAbs(base) || path.Clean(base) != base || literal && !p.Match(base) {
			t.Fatalf("%q begins with %q", text, base)
		}
		if p.Match(name) {
			for dir := path.Dir(name); ; dir = path.Dir(dir) {
				if name != "/" && !p.Below(dir) && dir != name {
					t.Fatalf("%q matches %q, and nothing below %q", text, name, dir)
				}
				if dir == "/" {
					break
				}
			}
		}
		again, err := pathrule.Parse(pathrule.Quote(name), variable)
		if got, _ := again.Base(); strings.IndexByte(name, 0) < 0 && (err != nil || got != name || !again.Match(name)) {
			t.Fatalf("%q quoted: %q, %v", name, got, err)
		}
	})
}
