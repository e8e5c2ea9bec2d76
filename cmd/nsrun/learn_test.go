//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// learning is a place for commands that need something outside of their project: $D in them.
type learning struct {
	bin, dir, port string
	shown          bool   // read-only, by the user's configuration
	settings       string // more of that, in [sandbox]
}

func newLearning(t *testing.T) *learning {
	l := &learning{bin: installed(t), dir: testenv.Dir(t)}
	testenv.Tree(t, l.dir, "home/.config/", "home/.ssh/", "home/.ssh/id: secret")
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, l.port, _ = net.SplitHostPort(server.Addr().String())
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "served") })}
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(server) }()
	t.Cleanup(func() { _ = web.Close(); <-done })
	return l
}

// renew recreates the project and what lies beside it, without the writes of commands.
func (l *learning) renew(t *testing.T) {
	t.Helper()
	for _, name := range []string{"p", "host"} {
		if err := os.RemoveAll(filepath.Join(l.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Tree(t, l.dir, "p/a: text\n", "p/c/x.c: int main(void){return 0;}\n", "p/Makefile: all:\n\tcat $(D)/in/f >b\n\tcp b $(D)/out/b\n",
		"p/go.mod: module p\n\ngo 1.21\n", "p/p.go: package main\nfunc main() {}\n",
		"p/p_test.go: package main\nimport (\"os\"; \"testing\")\nfunc TestP(t *testing.T) { if _, err := os.ReadFile(os.Getenv(\"D\") + \"/in/f\"); err != nil { t.Fatal(err) } }\n",
		"p/package.json: {\"scripts\": {\"test\": \"node t.js\"}}\n",
		"p/t.js: require(\"fs\").copyFileSync(process.env.D + \"/in/f\", process.env.D + \"/out/f\")\n",
		"p/test_p.py: import os\ndef test_p(): assert open(os.environ[\"D\"] + \"/in/f\").read() == \"in\\n\"\n",
		"p/CMakeLists.txt: cmake_minimum_required(VERSION 3.10)\nproject(p C)\nfile(READ ${D}/in/f F)\nadd_executable(x c/x.c)\n",
		"host/in/f: in\n", "host/in/g: in\n", "host/in/go.mod: module p\n\ngo 1.21\n", "host/out/", "host/file: old\n")
	if err := os.WriteFile(filepath.Join(l.dir, "host/prog"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(l.dir, "host/repo")
	for _, args := range [][]string{{"init", "-q", repo}, {"-C", repo, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m"}, {"-C", repo, "update-server-info"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func (l *learning) env(config string) []string {
	home := filepath.Join(l.dir, "home")
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + config, "LANG=C.UTF-8", "D=" + filepath.Join(l.dir, "host"), "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false"}
}

// words are a command, which a shell would read so.
func (l *learning) words(text string) (words []string) {
	for i, part := range strings.Split(text, "'") {
		if part = strings.NewReplacer("$D", filepath.Join(l.dir, "host"), "$H", filepath.Join(l.dir, "home"), "$PORT", l.port).Replace(part); i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func (l *learning) run(t *testing.T, config string, args ...string) ran {
	t.Helper()
	c := exec.Command("/", args...)
	c.Dir, c.Env = filepath.Join(l.dir, "p"), l.env(config)
	return runs(t, l.bin, "nsrun", c)
}

// config is a directory with a text as the user's configuration.
func (l *learning) config(t *testing.T, text string) string {
	t.Helper()
	config := testenv.Dir(t)
	testenv.Tree(t, config, "nsrun/")
	text = strings.Replace(text, "[sandbox]\n", "[sandbox]\n"+l.settings, 1)
	if l.shown {
		text = strings.Replace(text, "[sandbox]\n", fmt.Sprintf("[sandbox]\nro_paths = [%q]\n", l.dir), 1)
	}
	if err := os.WriteFile(filepath.Join(config, "nsrun/config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func elements(text string) (list []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "    \"") {
			list = append(list, line)
		}
	}
	return list
}

// learned learns a command with flags, and returns the configuration's file and its text.
func (l *learning) learned(t *testing.T, flags, words []string) (file, text string, r ran) {
	t.Helper()
	out := filepath.Join(testenv.Dir(t), "learned.toml")
	r = l.run(t, l.config(t, "[sandbox]\n"), slices.Concat([]string{"learn", "-o", out}, flags, []string{"--"}, words)...)
	b, _ := os.ReadFile(out)
	return out, string(b), r
}

// under runs a command with a text as the user's configuration.
func (l *learning) under(t *testing.T, text string, words []string) ran {
	t.Helper()
	l.renew(t)
	return l.run(t, l.config(t, text), append([]string{"run", "-q", "--discard", "--"}, words...)...)
}

// TestLearn: with what was learned a command succeeds, and without any line of it the command fails.
func TestLearn(t *testing.T) {
	testenv.Leaks(t, reap)
	l := newLearning(t)
	py := func(code string) string { return "/usr/bin/python3 -c '" + code + "'" }
	for i, c := range []struct{ command, flags, want string }{
		{"sh -c 'echo new >$D/file'", "", "w:$D/file"},
		{"go test -count=1 .", "", "r:$D/in/f"},
		{"npm test --silent", "", "r:$D/in/f w:$D/out"},
		{"/usr/bin/python3 -m pytest -q", "", "r:$D/in/f"},
		{"cmake -S . -B new -DD=$D", "", "r:$D/in/f"},
		{"make D=$D", "", "r:$D/in/f w:$D/out"},
		{"gcc -o $D/out/x c/x.c", "", "w:$D/out"},
		{"git clone -q $D/repo new", "", "r:$D/repo"},
		{"git -C $D/repo log -1", "", "r:$D/repo"},
		{"git config -f $D/file a.b c", "", "w:$D"},
		{"git init -q $D/out/new", "shown", "w:$D/out"},
		{"tar cf $D/out/t a", "", "w:$D/out"},
		{"rsync -r $D/in/ new", "", "r:$D/in"},
		{"sed -i s/old/new/ $D/file", "", "w:$D"},
		{"sed -i s/in/new/ $D/in/f", "shown", "w:$D/in"},
		{"go build -modfile=$D/in/go.mod -o new .", "", "r:$D/in/go.mod"},
		{"sh -c 'echo new >$D/file'", "shown", "w:$D/file"},
		{"cp $D/in/f $D/in/g .", "", "r:$D/in/f r:$D/in/g"},
		{py(`open("$D/file","r+").write(open("$D/in/f").read())`), "", "w:$D/file r:$D/in/f"},
		{py(`import sqlite3; sqlite3.connect("$D/out/db").execute("create table t(a)").connection.commit()`), "", "w:$D/out"},
		{"perl -e 'unlink(\"$D/in/f\") or exit 2'", "", "w:$D/in"},
		{"node -e 'require(\"fs\").truncateSync(\"$D/file\")'", "shown", "w:$D/file"},
		{"curl -sSf http://127.0.0.1:$PORT/", "--allow-net tcp:127.0.0.1:$PORT --allow-net tcp:127.0.0.1:1 --ro /etc", "n:tcp:127.0.0.1:$PORT"},
		{"cp $H/.ssh/id .", "--ro $H/.ssh/id --ro $D/in", "r:$H/.ssh/id"},
		{"ls $H/.ssh", "--ro $H/.ssh", "r:$H/.ssh"},
		{"$D/prog", "", "r:$D/prog"},
		{"true", "--ro $D --rw $D/out --allow-net *", ""},
		{"sh -c 'cat $D/in/f || true'", "", ""},
	} {
		if !quickly(i) {
			continue
		}
		t.Run(c.command, func(t *testing.T) {
			words, flags := l.words(c.command), l.words(c.flags)
			if l.shown = c.flags == "shown"; l.shown {
				flags = nil
			}
			if ok, err := have(words[0]); err != nil {
				t.Fatal(err)
			} else if !ok && !strings.HasPrefix(words[0], l.dir) {
				testenv.Skip(t, words[0], "not installed")
			}
			if slices.Contains(words, "pytest") && exec.Command(words[0], "-c", "import pytest").Run() != nil {
				testenv.Skip(t, "pytest", "not installed")
			}
			if words[0] == "go" { // its cache is filled, as it is usually
				l.renew(t)
				c := exec.Command("go", "test", ".")
				c.Dir, c.Env = filepath.Join(l.dir, "p"), l.env("")
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			l.learnCase(t, words, flags, l.words(c.want))
		})
	}
}

func (l *learning) learnCase(t *testing.T, words, flags, want []string) {
	l.renew(t)
	host := filepath.Join(l.dir, "host")
	before := testenv.Listing(t, host)
	file, text, r := l.learned(t, flags, words)
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.out)
	}
	if diff := testenv.Difference(t, host, before); diff != "" {
		t.Errorf("learning has written: %s", diff)
	}
	var got []string
	kind := ""
	for line := range strings.Lines(text) {
		for key, short := range map[string]string{"extra_ro_paths": "r:", "extra_rw_paths": "w:", "allow_net": "n:", "allow_unix": "u:"} {
			if strings.HasPrefix(line, key) {
				kind = short
			}
		}
		if strings.HasPrefix(line, "    \"") {
			value, _, _ := strings.Cut(line[5:], `", # `)
			got = append(got, kind+strings.Replace(value, "~", filepath.Join(l.dir, "home"), 1))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("learned %q, want %q: %s\n%s", got, want, text, r.out)
	}
	again := l.run(t, "", append([]string{"learn", "-o", file, "--"}, words...)...)
	if b, _ := os.ReadFile(file); again.status == 0 || string(b) != text {
		t.Errorf("a file was overwritten: %s", again.out)
	}
	if r := l.under(t, text, words); r.status != 0 {
		t.Errorf("with the learned file: status %d: %s\n%s", r.status, r.out, text)
	}
	for _, line := range elements(text) {
		if r := l.under(t, strings.Replace(text, line, "", 1), words); r.status == 0 {
			t.Errorf("without %q it succeeds", line)
		}
	}
}
