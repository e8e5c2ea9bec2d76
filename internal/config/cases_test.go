package config

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/pathrule"
)

var update = flag.Bool("update", false, "rewrite testdata")

// sources are the words that begin a file in testdata/cases.txt.
var sources = map[string]Source{"system": System, "user": User, "project": Project, "trusted": Project}

// outcome is the result of files, in their order: settings that differ from the default, what is left out, and errors.
func outcome(files string, command []string, flags *Layer) string {
	f := &Facts{Home: "/home/me", Project: "/home/me/p", Command: command}
	var layers []*Layer
	var b strings.Builder
	for part := range strings.SplitSeq("\n"+files, "\n@") {
		head, text, _ := strings.Cut(part, "\n")
		source, ok := sources[head]
		if !ok {
			continue
		}
		l, errs := Decode(head, source, []byte(unescape(text)), f)
		for _, e := range errs {
			b.WriteString("error: " + e.Error() + "\n")
		}
		if l != nil {
			l.Strict = head == "project"
			layers = append(layers, l)
		}
	}
	if b.Len() > 0 {
		return b.String()
	}
	p, err := Merge(layers, flags, f)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, left := range p.Left {
		b.WriteString("left: " + left.Error() + "\n")
	}
	none, _ := Merge(nil, nil, f)
	for i, k := range Keys {
		if k.To == "" && p.TOML(i) != none.TOML(i) {
			b.WriteString(k.Name + " = " + p.TOML(i) + "\n")
		}
	}
	return b.String()
}

// unescape has what a text file cannot show well.
func unescape(s string) string {
	return strings.NewReplacer("<NUL>", "\x00", "<FF>", "\xff", "<CR>", "\r", "<BOM>", "\ufeff", "<LONG>", strings.Repeat("x", MaxSize), "<DEEP>", strings.Repeat("[", 20000), "<DOTS>", strings.Repeat("a.", 15000)).Replace(s)
}

// Each case in testdata/cases.txt is files, and what they come to. A line "$ words" is the command.
func TestCases(t *testing.T) {
	const name = "testdata/cases.txt"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var b strings.Builder
	for part := range strings.SplitSeq(string(text), "=== ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		title, body, _ := strings.Cut(part, "\n")
		files, want, _ := strings.Cut(body, "---\n")
		var command []string
		if rest, ok := strings.CutPrefix(files, "$ "); ok {
			line, after, _ := strings.Cut(rest, "\n")
			command, files = strings.Fields(line), after
			b.WriteString("=== " + title + "\n$ " + line + "\n" + files + "---\n")
		} else {
			b.WriteString("=== " + title + "\n" + files + "---\n")
		}
		got := outcome(strings.TrimSuffix(files, "\n"), command, nil)
		b.WriteString(got)
		n++
		if !*update && got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", title, got, want)
		}
	}
	if n < 150 {
		t.Errorf("%d cases", n)
	}
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What a project's file says, whatever it is, lets commands do nothing that they could not do without it.
func FuzzProject(f *testing.F) {
	text, _ := os.ReadFile("testdata/cases.txt")
	for part := range strings.SplitSeq(string(text), "=== ") {
		_, body, _ := strings.Cut(part, "\n")
		files, _, _ := strings.Cut(body, "---\n")
		for file := range strings.SplitSeq("\n"+files, "\n@") {
			_, content, _ := strings.Cut(file, "\n")
			f.Add([]byte(unescape(content)), false)
			f.Add([]byte(unescape(content)), true)
		}
	}
	const user = "[sandbox]\nallow_net = ['a.example:443', 'b.example']\nrw_paths = ['/a', '~/b']\nro_paths = ['c']\npublish = [80, 8080]\npresets = ['build', 'go', 'strict']\nenv = ['A=1']\n[limits]\ntimeout = '5m'\nmemory = '1G'\nswap = '1G'\nnofile = 99\ncpus = 1.5\nnice = 3\n"
	f.Fuzz(func(t *testing.T, data []byte, wide bool) {
		facts := &Facts{Home: "/home/me", Project: "/home/me/p", Command: []string{"make", "all"}}
		text := user
		if wide {
			text = "[sandbox]\nisolate_network = false\nenv_passthrough = ['TOKEN']\nallow_unix = ['/run/x']\npresets = ['git', 'test']\nenabled = false\nmode = 'preferred'\n"
		}
		base, errs := Decode("user", User, []byte(text), facts)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		before, err := Merge([]*Layer{base}, nil, facts)
		if err != nil {
			t.Fatal(err)
		}
		l, errs := Decode("project", Project, data, facts)
		for _, e := range errs {
			if e.Pos.Line < 1 || e.Pos.Column < 1 || strings.Contains(e.Error(), "\n") {
				t.Errorf("%q", e.Error())
			}
		}
		if len(errs) > 0 {
			return
		}
		l.Strict = true
		after, err := Merge([]*Layer{base, l}, nil, facts)
		if err != nil {
			t.Fatalf("%s", err)
		}
		if !stricter(before, after) {
			t.Errorf("%q widens %+v to %+v", data, before, after)
		}
		after.Rules(func(string) (int, int) { return 1, 1 })
		after.Net()
		after.Limits()
		for i := range Keys {
			if Keys[i].To == "" {
				after.TOML(i)
				after.Value(i)
			}
		}
	})
}

// The file that is written for a start is one that can be read, also with all its examples.
func TestTemplate(t *testing.T) {
	f := &Facts{Home: "/home/me", Project: "/home/me/p"}
	if _, errs := Decode("t", User, []byte(Template()), f); len(errs) > 0 {
		t.Error(errs)
	}
	var b strings.Builder
	for line := range strings.Lines(Template()) {
		if text, ok := strings.CutPrefix(line, "# "); ok && (strings.HasPrefix(text, "[") || strings.Contains(line, " = ") && !strings.Contains(line, ". ")) {
			line = text
		}
		b.WriteString(line)
	}
	l, errs := Decode("t", User, []byte(b.String()), f)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for i, v := range l.Values {
		if v == nil {
			t.Errorf("%s is not in the template", Keys[i].Name)
		}
	}
}

// Flags win, and what is locked only gets stricter by them.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		files string
		flags func(*Layer)
		want  string
	}{
		{"@user\n[sandbox]\nallow_net = ['a']", func(l *Layer) { l.Add("allow_net", "--allow-net", "b") }, "allow_net = [\"a\", \"b\"]\n"},
		{"@user\n[sandbox]\nallow_net = ['a']\npresets = ['go', 'build']", func(l *Layer) { l.NoRules = true; l.Set("isolate_network", "--net", "true") }, "presets = [\"build\"]\n"},
		{"@user\n[sandbox]\nallow_net = ['a']", func(l *Layer) { l.NoRules = true; l.Set("isolate_network", "--net", "false") }, "isolate_network = false\n"},
		{"@user\n[sandbox]\nmode = 'disabled'", func(l *Layer) { l.Sandbox("--sandbox", "required") }, ""},
		{"@user\n[sandbox]\nenabled = true", func(l *Layer) { l.Sandbox("--sandbox", "disabled") }, "enabled = false\nmode = \"disabled\"\n"},
		{"@system\nlocked = ['sandbox.mode']", func(l *Layer) { l.Sandbox("--sandbox", "preferred") },
			"error: --sandbox: mode is locked by system:1:11, and can only be made stricter\n"},
		{"@user\n[limits]\ntimeout = '1m'", func(l *Layer) { l.Set("timeout", "--timeout", "1h0m0s") }, "timeout = \"1h0m0s\"\n"},
		{"@user\n[limits]\nmemory = '1G'\nidle_io = true\nswap = '2G'", func(l *Layer) {
			l.Limits(limits.Limits{Memory: 2 << 30, CPUs: 1.5}, func(flag string) bool { return flag == "idle-io" || flag == "swap" })
		}, "memory = \"2G\"\nswap = \"0\"\ncpus = 1.5\n"},
		{"@system\nlocked = ['limits.memory']\n[limits]\nmemory = '1G'", func(l *Layer) {
			l.Limits(limits.Limits{Memory: 2 << 30}, func(string) bool { return false })
		}, "error: --memory: memory is locked by system:1:11, and can only be made stricter\n"},
		{"@system\nlocked = ['limits.timeout']\n[limits]\ntimeout = '1m'", func(l *Layer) { l.Set("timeout", "--timeout", "1h0m0s") },
			"error: --timeout: timeout is locked by system:1:11, and can only be made stricter\n"},
		{"@system\nlocked = ['limits.timeout']\n[limits]\ntimeout = '1m'", func(l *Layer) { l.Set("timeout", "--timeout", "1s") }, "timeout = \"1s\"\n"},
		{"@system\nlocked = ['sandbox.allow_net']", func(l *Layer) { l.Add("allow_net", "--allow-net", "b") },
			"error: --allow-net: allow_net is locked by system:1:11, and can only be made stricter\n"},
		// What else opens a network is as much of a change.
		{"@system\nlocked = ['sandbox.allow_net']", func(l *Layer) { l.NoRules = true; l.Set("isolate_network", "--net", "false") },
			"error: --net: allow_net is locked by system:1:11, and can only be made stricter\n"},
		{"@system\nlocked = ['sandbox.allow_net']\n[sandbox]\nallow_net = ['a']", func(l *Layer) { l.NoRules = true; l.Set("isolate_network", "--net", "true") }, ""},
		{"@system\nlocked = ['sandbox.allow_net']", func(l *Layer) { l.Add("presets", "--preset", "github") },
			"error: --preset: allow_net is locked by system:1:11, and can only be made stricter\n"},
		{"@system\nlocked = ['sandbox.allow_net']\n[sandbox]\npresets = ['go']", func(l *Layer) { l.Add("presets", "--preset", "go"); l.Add("presets", "--preset", "build") }, "presets = [\"go\", \"build\"]\n"},
		{"@system\nlocked = ['sandbox.allow_net']\n@user\n[sandbox]\nisolate_network = false", func(*Layer) {},
			"error: user:2:1: allow_net is locked by system:1:11, and can only be made stricter\n"},
	} {
		l := Flags()
		c.flags(l)
		if got := outcome(c.files, nil, l); got != c.want {
			t.Errorf("%s: %s, want %s", c.files, got, c.want)
		}
	}
}

// Reading the usual file costs at most a tenth of a millisecond.
func BenchmarkFile(b *testing.B) {
	text := []byte("[sandbox]\nallow_net = ['proxy.golang.org:443', '*.npmjs.org:443']\nblocked_paths = ['.env', '~/private']\npresets = ['build']\n" +
		"[limits]\ntimeout = '30m'\n[profile.npm]\nmatch = ['npm', 'npx']\nextra_rw_paths = ['~/.npm']\n")
	f := &Facts{Home: "/home/me", Project: "/home/me/p", Command: []string{"npm", "ci"}}
	for b.Loop() {
		l, errs := Decode("f", User, text, f)
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		if _, err := Merge([]*Layer{l}, nil, f); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRules: the deeper path wins, read-only wins over writable, and what is hidden comes last, in the order of files.
func TestRules(t *testing.T) {
	depths := func(pattern string) (least, most int) {
		p, err := pathrule.Parse(pattern, func(string) string { return "/home/me" })
		if err != nil {
			t.Fatal(err)
		}
		return p.Depths()
	}
	for _, c := range []struct{ rw, ro, want string }{
		{"'/a'", "'/a/b'", "rw /a, ro /a/b"},
		{"'/a/b'", "'/a'", "ro /a, rw /a/b"},
		{"'/a'", "'/a'", "rw /a, ro /a"},
		{"'~/a'", "'$HOME/a/b'", "rw /home/me/a, ro $HOME/a/b"},
		{"'$HOME/a/b'", "'~/a'", "ro /home/me/a, rw $HOME/a/b"},
		{"'~/a'", "'${HOME}//a/'", "rw /home/me/a, ro ${HOME}//a/"},
		{"'/a/b/c'", "'/a/*'", "ro /a/*, rw /a/b/c"},
		{"'/a/*/*'", "'/a/b'", "ro /a/b, rw /a/*/*"},
		{"'/a/b/c/d'", "'/a/**/x'", "rw /a/b/c/d, ro /a/**/x"},
		{"'/a/**/x'", "'/a'", "ro /a, rw /a/**/x"},
		{"'/a/**/x'", "'/a/b'", "rw /a/**/x, ro /a/b"},
		{"'/'", "'/**/x', '/a'", "rw /, ro /a, ro /**/x"},
	} {
		f := &Facts{Home: "/home/me", Project: "/home/me/p"}
		l, errs := Decode("f", User, []byte("[sandbox]\nblocked_paths = ['/z', '!/z/y']\nro_paths = ["+c.ro+"]\nrw_paths = ["+c.rw+"]\n"), f)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		p, err := Merge([]*Layer{l}, nil, f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		list, last := p.Rules(depths)
		for _, r := range list {
			got = append(got, r.Kind+" "+r.Pattern)
		}
		if want := c.want + ", block /z, block !/z/y"; strings.Join(got, ", ") != want || len(last) > 0 {
			t.Errorf("rw %s, ro %s: %s, want %s", c.rw, c.ro, strings.Join(got, ", "), want)
		}
	}
}

// stricter reports whether commands can do no more with one policy than with another.
func stricter(before, after *Policy) bool {
	for i := range Keys {
		if !narrows(i, before.Settings[i].Items, after.Settings[i].Items) {
			return false
		}
	}
	return true
}
