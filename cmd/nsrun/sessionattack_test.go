//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/testenv"
)

// Attacks on what the command says and does about sessions, see also package overlay.

// A desk is a project and a state directory of its own.
type desk struct {
	t            *testing.T
	bin          string
	project, dir string
	env          []string
}

func newDesk(t *testing.T, tree ...string) *desk {
	t.Helper()
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "home/", "state/")
	d := &desk{t: t, bin: installed(t), dir: dir, project: filepath.Join(dir, "p")}
	d.env = []string{"HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8",
		"GORACE=atexit_sleep_ms=0"}
	testenv.Tree(t, d.project, tree...)
	return d
}

// command is nsrun in the project.
func (d *desk) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(d.bin, "nsrun"), args...)
	c.Dir, c.Env = d.project, d.env
	return c
}

// nsrun runs it, and returns all that it prints.
func (d *desk) nsrun(args ...string) (status int, output string) {
	d.t.Helper()
	c := d.command(args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		d.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// must is nsrun for what has to work.
func (d *desk) must(args ...string) string {
	d.t.Helper()
	status, out := d.nsrun(args...)
	if status != 0 {
		d.t.Fatalf("%q: status %d\n%s", args, status, out)
	}
	return out
}

// upper is where the only session keeps what was written.
func (d *desk) upper() string {
	d.t.Helper()
	list, err := filepath.Glob(filepath.Join(d.dir, "state/nsrun/sessions/2*/upper/overlay1"))
	if err != nil || len(list) != 1 {
		d.t.Fatalf("%q, %v", list, err)
	}
	return list[0]
}

// acts says which characters of a text a terminal acts on.
func acts(text string) (list []string) {
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			list = append(list, text[:min(len(text), 10)])
		}
		text = text[n:]
	}
	return list
}

// TestAttack31Names: names that are terminal sequences, several lines, or shell commands are printed escaped, and
// committed unchanged.
func TestAttack31Names(t *testing.T) {
	testenv.Leaks(t, reap)
	names := []string{"a\nD  passwd", "nsrun: \nD important", "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b]52;c;cHduZWQ=\x07", "x\rD y", "\u202egpj.exe", "\u2066x", "\u009b31m", "\x9b31m", "\xff\xfe",
		"'; touch pwned; '", "$(touch pwned)", "`touch pwned`", "-rf", "--", "\"q\"", "a\\nb", " ", "\t", "\x7f", "#", "b/", "{a,b}", "*"}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "/") })
	d := newDesk(t, "important: 1")
	// A file, a link, and a directory with something in it for each.
	const script = `for f; do printf x > "./$f"; mkdir -p "dir/$f"; printf y > "dir/$f/$f"; ln -s -- "$f" "dir/$f/link"; done`
	out := d.must(append([]string{"run", "--keep", "--", "sh", "-c", script, "sh"}, names...)...)
	outputs := map[string]string{"run": out}
	for _, args := range [][]string{{"show"}, {"show", "--json"}, {"diff", "--stat"}, {"diff", "--name-status"}, {"ls"}, {"ls", "--json"}, {"doctor", "--sessions"}, {"commit", "last", "no such\x1b[2J"}} {
		_, outputs[strings.Join(args, " ")] = d.nsrun(args...)
	}
	for what, text := range outputs {
		if list := acts(text); len(list) > 0 {
			t.Errorf("%s: a terminal would act on %q", what, list)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimPrefix(line, "nsrun: "); strings.HasPrefix(line, "D ") || strings.HasPrefix(line, "D\t") {
				t.Errorf("%s: a line that looks like a deletion: %q", what, line)
			}
		}
	}
	// Each change is one line, and all in the new directory one.
	if n, want := strings.Count(outputs["show"], "\nA "), len(names)+1; n != want {
		t.Errorf("%d changes are shown, want %d\n%s", n, want, outputs["show"])
	}
	// Control: who prints names prints another change, and moves the cursor.
	raw, err := exec.Command("find", d.upper(), "-printf", `A %P\n`).Output()
	if err != nil || len(acts(string(raw))) == 0 || !strings.Contains(string(raw), "\nD  passwd") {
		t.Errorf("the control: %v", err)
	}
	// By name, and then the rest.
	for _, n := range names[:5] {
		d.must("commit", "-q", "last", "./"+n)
	}
	if out := d.must("commit"); len(acts(out)) > 0 {
		t.Errorf("commit: %q", out)
	}
	for _, n := range names {
		for p, want := range map[string]string{n: "x", "dir/" + n + "/" + n: "y"} {
			if b, err := os.ReadFile(filepath.Join(d.project, p)); string(b) != want {
				t.Errorf("%q: %q, %v", p, b, err)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(d.project, "pwned")); err == nil {
		t.Error("a name was executed")
	}
	if b, _ := os.ReadFile(filepath.Join(d.project, "important")); string(b) != "1" {
		t.Error("an important file is gone")
	}
}

// TestAttack32Flood: a deletion cannot be hidden behind very many other changes: where
// changes are listed it is there, before what was added.
func TestAttack32Flood(t *testing.T) {
	testenv.Once(t)
	testenv.Leaks(t, reap)
	d := newDesk(t, "zz/important: 1", "zz/dir/a: 1", "zz/dir/b: 1", "keep: 1")
	out := d.must("run", "--keep", "--", "sh", "-c", `mkdir flood; cd flood; seq 1000 | xargs touch; cd ..; rm zz/important; rm -r zz/dir`)
	list := map[string]string{"run": out}
	for _, args := range [][]string{{"show"}, {"diff", "--stat"}, {"diff", "--name-status"}, {"diff"}} {
		list[strings.Join(args, " ")] = d.must(args...)
	}
	for what, text := range list {
		for _, name := range []string{"zz/important", "zz/dir"} {
			if !strings.Contains(text, name) {
				t.Errorf("%s does not show %s:\n%.2000s", what, name, text)
			}
		}
	}
	for _, what := range []string{"run", "diff --stat", "diff --name-status"} {
		gone, flood := strings.Index(list[what], "zz/important"), strings.Index(list[what], "flood/")
		if gone > flood && flood >= 0 {
			t.Errorf("%s: the deletion comes after the flood", what)
		}
	}
	var shown struct {
		Changes []jsonform.Change `json:"changes"`
	}
	if err := json.Unmarshal([]byte(d.must("show", "--json")), &shown); err != nil || len(shown.Changes) != 1003 {
		t.Errorf("%d changes, %v", len(shown.Changes), err)
	}
	// Control: in the order of names it comes after everything else.
	if i := slices.IndexFunc(shown.Changes, func(c jsonform.Change) bool { return c.Path == "zz/important" }); i < 1000 {
		t.Errorf("the control: the change is number %d", i)
	}
}

// TestAttack34Command: a setuid file is pointed out and not committed, unless that is
// asked for.
func TestAttack34Command(t *testing.T) {
	testenv.Leaks(t, reap)
	d := newDesk(t, "a: 1")
	// The sandbox itself refuses to make one, whatever makes it.
	d.must("run", "--keep", "--", "sh", "-c", "cp /bin/true tool; ! chmod 4755 tool 2>&-; echo 2 > a")
	if err := os.Chmod(filepath.Join(d.upper(), "tool"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if out := d.must("show"); !strings.Contains(out, "setuid") {
		t.Errorf("show: %s", out)
	}
	missing := func() {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(d.project, "tool")); err == nil {
			t.Error("it is there")
		}
	}
	// Naming it is not enough, and then nothing else is committed.
	status, out := d.nsrun("commit", "last", "tool", "a")
	if status != console.ExitFailed || !strings.Contains(out, "tool is setuid") {
		t.Errorf("status %d\n%s", status, out)
	}
	missing()
	if b, _ := os.ReadFile(filepath.Join(d.project, "a")); string(b) != "1" {
		t.Errorf("half a commit: %q", b)
	}
	// A commit of everything holds it back.
	if out := d.must("commit"); !strings.Contains(out, "held back: tool is setuid") {
		t.Errorf("commit: %s", out)
	}
	missing()
	if b, _ := os.ReadFile(filepath.Join(d.project, "a")); string(b) != "2\n" {
		t.Errorf("the rest was not committed: %q", b)
	}
	d.nsrun("commit") // not the second time either
	missing()
	// Control: it is setuid, and is committed as such when that is asked for.
	d.must("commit", "--allow-special")
	if fi, err := os.Stat(filepath.Join(d.project, "tool")); err != nil || fi.Mode()&os.ModeSetuid == 0 {
		t.Errorf("the control: %v, %v", fi, err)
	}
}

// TestAttack35Upper: what the session keeps is not reachable from inside, by whatever
// path, so that nothing can be added to it or taken from it that was not done to the
// project.
func TestAttack35Upper(t *testing.T) {
	testenv.Leaks(t, reap)
	d := newDesk(t, "a: 1")
	const script = `
		echo 2 > a
		upper=$(sed -n 's/.*upperdir=\([^, ]*\).*/\1/p' /proc/self/mountinfo | head -n 1)
		[ -n "$upper" ] || upper=$1/nsrun/sessions/x/upper/overlay1
		echo "upper $upper"
		for root in "" /proc/self/root /proc/1/root /proc/self/cwd/../../../.. /proc/$PPID/root /oldroot /newroot /..; do
			for p in "$upper" "${upper%/upper/*}/work/overlay1" "${upper%/upper/*}" "$1/nsrun/sessions" "$1/nsrun"; do
				if echo planted > "$root$p/planted"; then echo "WROTE $root$p"; fi
				if [ -n "$(ls -A "$root$p")" ]; then echo "LISTED $root$p"; fi
				if mv "$root$p" "$root$p.moved"; then echo "MOVED $root$p"; fi
				if rm -r "$root$p"; then echo "REMOVED $root$p"; fi
				if mount --bind "$root$p" .; then echo "MOUNTED $root$p"; fi
			done
			if echo '{}' > "$root${upper%/upper/*}/session.json"; then echo "SESSION $root"; fi
			if true > "$root${upper%/upper/*}/lock"; then echo "LOCK $root"; fi
		done 2>&-
		for fd in /proc/self/fd/* /proc/1/fd/*; do
			case $(readlink $fd) in *nsrun/sessions*) echo "DESCRIPTOR $fd";; esac
		done 2>&-
		true`
	out := d.must("run", "--keep", "--", "sh", "-c", script, "sh", filepath.Join(d.dir, "state"))
	for line := range strings.Lines(out) {
		if first, _, _ := strings.Cut(line, " "); len(first) > 3 && first == strings.ToUpper(first) {
			t.Errorf("inside: %s", line)
		}
	}
	if got := d.must("diff", "--name-status"); got != "M\ta\n" {
		t.Errorf("changes: %q", got)
	}
	if !strings.Contains(out, "upper /") {
		t.Errorf("the commit tried no path\n%s", out)
	}
	// Control: who reaches it makes changes that nobody made.
	if err := os.WriteFile(filepath.Join(d.upper(), "planted"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := d.must("diff", "--name-status"); !strings.Contains(got, "A\tplanted\n") {
		t.Errorf("the control: %s", got)
	}
}

// TestAttack36SecondRun: while a command runs in a session, everything else that would
// change the session or the project by it is refused.
func TestAttack36SecondRun(t *testing.T) {
	testenv.Leaks(t, reap)
	d := newDesk(t, "a: 1")
	d.must("run", "--keep", "--", "sh", "-c", "echo 2 > a")
	c := d.command("run", "-q", "--session", "last", "--keep", "--", "sh", "-c", "echo 3 > a; echo ready; cat; echo 4 > b")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	outPipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(outPipe, buf); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "--session", "last", "--", "sh", "-c", "echo second > a"}, {"commit"}, {"commit", "last", "a"}, {"discard"}, {"drop", "last", "a"}, {"undo", "last"},
		{"gc", "last"}, {"gc", "--older", "0s"}, {"gc", "--all"},
	} {
		status, out := d.nsrun(args...)
		if status == 0 && args[0] != "gc" {
			t.Errorf("%q worked\n%s", args, out)
		}
		if args[0] != "gc" && !strings.Contains(out, "in use") {
			t.Errorf("%q: status %d\n%s", args, status, out)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(d.project, "a")); string(b) != "1" {
		t.Errorf("the project has %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(d.upper(), "a")); string(b) != "3\n" {
		t.Errorf("the session has %q", b)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, outPipe); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	// Control: then it works.
	d.must("run", "--session", "last", "--keep", "--", "sh", "-c", "test $(cat a) = 3; echo 5 > c")
	d.must("commit")
	for name, want := range map[string]string{"a": "3\n", "b": "4\n", "c": "5\n"} {
		if b, err := os.ReadFile(filepath.Join(d.project, name)); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
