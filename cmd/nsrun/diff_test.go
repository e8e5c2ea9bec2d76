//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/testenv"
)

// gitView is what git knows of a directory: of each file and link the mode and the
// content.
func gitView(t testing.TB, dir string) map[string]string {
	t.Helper()
	view := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case fi.Mode().IsRegular():
			var b []byte
			b, err = os.ReadFile(p)
			view[name] = fmt.Sprintf("file %v %q", fi.Mode()&0o100 != 0, b)
		case fi.Mode()&fs.ModeSymlink != 0:
			var text string
			text, err = os.Readlink(p)
			view[name] = fmt.Sprintf("link %q", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func wantView(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%q is %.100s, want %.100s", name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is there: %.100s", name, got[name])
		}
	}
}

// A world is a project with a home directory beside it.
type world struct{ bin, dir string }

func newWorld(t testing.TB) world {
	t.Helper()
	w := world{dir: testenv.Dir(t)}
	testenv.Tree(t, w.dir, "home/", "p/", "copy/")
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", w.path("home")).Run() }) // a session that was left
	return w
}

func (w world) path(name string) string { return filepath.Join(w.dir, name) }

// command runs a program in the project, and returns its two outputs.
func (w world) command(t testing.TB, dir, stdin, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(name, args...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = w.path(dir), strings.NewReader(stdin), &out, &errs
	c.Env = []string{"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + w.path("home"), "LC_ALL=C", "GORACE=atexit_sleep_ms=0",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + w.dir}
	err = c.Run()
	return out.String(), errs.String(), err
}

func (w world) must(t testing.TB, dir, stdin, name string, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := w.command(t, dir, stdin, name, args...)
	if err != nil {
		t.Fatalf("%s %.60q: %v\n%s", name, args, err, stderr)
	}
	return stdout, stderr
}

// session runs a script in a new session, and has its patch applied to a copy of the
// project; then what is in the session is committed.
func (w world) session(t testing.TB, script string) (patch, lacks string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", err.Error())
	}
	nsrun := filepath.Join(w.bin, "nsrun")
	if err := os.RemoveAll(w.path("copy")); err != nil {
		t.Fatal(err)
	}
	w.must(t, "p", "", "cp", "-a", ".", "../copy")
	w.must(t, "p", "", nsrun, "run", "-q", "--project", ".", "--", "sh", "-euc", "umask 022\n"+script)
	patch, lacks = w.must(t, "p", "", nsrun, "diff", "--patch")
	if patch != "" {
		w.must(t, "copy", patch, "git", "apply")
	}
	w.must(t, "p", "", nsrun, "commit", "-q", "--allow-special")
	return patch, lacks
}

// TestPatchAppliesRandom: whatever a session does, its patch does to a copy.
func TestPatchAppliesRandom(t *testing.T) {
	testenv.Leaks(t, reap)
	w := newWorld(t)
	w.bin = installed(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rounds := 4
	if testenv.Long() {
		rounds = 40
	}
	for i := range rounds {
		script := fmt.Sprintf("echo %d > stamp\n%s", i, randomChanges(r)) // one change at least
		patch, lacks := w.session(t, script)
		want, got := gitView(t, w.path("p")), gitView(t, w.path("copy"))
		for _, line := range strings.Split(lacks, "\n") {
			// Many are counted, not named.
			if strings.HasSuffix(line, "objects below a former link that git cannot follow") {
				var most, n int
				if _, err := fmt.Sscanf(line, "nsrun: not in the patch: %d", &most); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				for name := range want {
					if _, ok := got[name]; !ok {
						delete(want, name)
						n++
					}
				}
				if n > most {
					t.Errorf("%d are missing: %s", n, line)
				}
			}
			if _, names, ok := strings.Cut(line, "that git cannot follow: "); ok {
				t.Logf("left out: %s", names)
				for name := range strings.SplitSeq(names, ", ") {
					// Not what is in single quotes, which names are.
					if u, err := strconv.Unquote(name); err == nil && name[0] == '"' {
						name = u
					}
					delete(want, name)
				}
			}
		}
		wantView(t, got, want)
		if t.Failed() {
			t.Fatalf("session %d:\n%s\n%.5000s", i, script, patch)
		}
		// Files that git cannot delete would disturb a later session.
		w.must(t, "p", "", "find", ".", "-type", "p", "-delete")
		w.must(t, "p", "", "find", ".", "-mindepth", "1", "-type", "d", "-empty", "-delete")
	}
}

var changedNames = []string{"a", "b", "c d", " x", "é", "\xff\xfe", `q"`, `b\`, "n\n", "t\tt", "'", "-f", "\x1b[31m", "dir", "z"}

// randomChanges is a script that makes, changes and deletes.
func randomChanges(r *rand.Rand) string {
	q := func(s string) string { return "./'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	name := func() string {
		n := changedNames[r.IntN(len(changedNames))]
		for r.IntN(2) == 0 {
			n += "/" + changedNames[r.IntN(len(changedNames))]
		}
		return n
	}
	var b strings.Builder
	b.WriteString("set +e\n") // some paths lead through links to nowhere
	// An object that a new name needs to replace is removed.
	room := func(n string) string {
		for dir := path.Dir(n); dir != "."; dir = path.Dir(dir) {
			fmt.Fprintf(&b, "[ -d %s -a ! -L %s ] || rm -f %s\n", q(dir), q(dir), q(dir))
		}
		fmt.Fprintf(&b, "mkdir -p %s\n", q(path.Dir(n)))
		return q(n)
	}
	for range 5 + r.IntN(25) {
		n := name()
		switch r.IntN(10) {
		case 0, 1:
			at := room(n)
			fmt.Fprintf(&b, "rm -rf %s\nseq %d > %s\n", at, r.IntN(40), at)
		case 2:
			at := room(n)
			fmt.Fprintf(&b, "rm -rf %s\nprintf 'x\\000\\377%d' > %s\n", at, r.IntN(1000), at)
		case 3:
			at := room(n)
			fmt.Fprintf(&b, "rm -rf %s\nln -s %s %s\n", at, q(name()), at)
		case 4:
			fmt.Fprintf(&b, "rm -rf %s\n", q(n))
		case 5:
			fmt.Fprintf(&b, "[ ! -f %s -o -L %s ] || chmod %s %s\n", q(n), q(n), []string{"755", "644", "600", "700"}[r.IntN(4)], q(n))
		case 6:
			fmt.Fprintf(&b, "[ ! -f %s -o -L %s ] || printf 'end %d\\r' >> %s\n", q(n), q(n), r.IntN(10), q(n))
		case 7:
			fmt.Fprintf(&b, "[ ! -f %s -o -L %s ] || sed -i '%ds/^/x/' %s\n", q(n), q(n), 1+r.IntN(20), q(n))
		case 8:
			at := room(n)
			fmt.Fprintf(&b, "[ -e %s -o -L %s ] || %s %s\n", at, at, []string{"mkfifo", "mkdir", ":>"}[r.IntN(3)], at)
		case 9:
			other := q(name())
			at := room(n)
			fmt.Fprintf(&b, "[ ! -f %s -o -L %s -o -e %s -o -L %s ] || ln %s %s\n", other, other, at, at, other, at)
		}
	}
	b.WriteString("true\n") // whatever became of the last one
	return b.String()
}

// TestPatchLacks: a patch says what git cannot represent. It leaves out changes that git could not apply, because git
// would stop half way at something in their place that it does not know.
func TestPatchLacks(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	tests := []struct{ name, before, run, lacks, view string }{
		{"nothing", `echo 1 > a`, `echo 2 > a`, "", `a: file false "2\n"`},
		{"pipe to file", `mkfifo x; echo 1 > a`, `rm x; echo 2 > a; echo x > x`,
			"named pipe that is to be deleted: x\nobject that replaces something that git cannot delete: x\n", `a: file false "2\n"`},
		{"pipe to directory", `mkfifo x; echo 1 > a`, `rm x; echo 2 > a; mkdir -p x/y; echo x > x/y/z`,
			"named pipe that is to be deleted: x\nobject that replaces something that git cannot delete: x/\n2 objects below something that git cannot create: x/y/, x/y/z\n", `a: file false "2\n"`},
		{"file to pipe", `echo x > x; echo 1 > a`, `rm x; mkfifo x`, "named pipe: x\n", `a: file false "1\n"`},
		{"pipe deleted", `mkfifo x; mkfifo y; echo 1 > a`, `rm x y; echo 2 > a`, "2 named pipes that are to be deleted: x, y\n", `a: file false "2\n"`},
		{"directory with a pipe to file", `mkdir x; mkfifo x/p; echo 1 > x/f; echo 1 > a`, `rm -r x; echo 2 > a; echo x > x`,
			"named pipe that is to be deleted: x/p\nobject that replaces something that git cannot delete: x\n", `a: file false "2\n"`},
		{"directory with an empty one to file", `mkdir -p x/e; echo 1 > x/f; echo 1 > a`, `rm -r x; echo 2 > a; echo x > x`,
			"empty directory that is to be deleted: x/e/\nobject that replaces something that git cannot delete: x\n", `a: file false "2\n"`},
		{"empty directory to file", `mkdir x; echo 1 > a`, `rmdir x; echo x > x`, "", `a: file false "1\n"; x: file false "x\n"`},
		{"empty directory to link", `mkdir x; echo 1 > a`, `rmdir x; ln -s a x`, "", `a: file false "1\n"; x: link "a"`},
		{"directory to file", `mkdir -p x/y; echo 1 > x/y/z`, `rm -r x; echo x > x`, "", `x: file false "x\n"`},
		{"directory to link", `mkdir -p x/y; echo 1 > x/y/z`, `rm -r x; ln -s . x`, "", `x: link "."`},
		{"link to directory", `ln -s . x`, `rm x; mkdir x; echo 1 > x/y`, "", `x/y: file false "1\n"`},
		{"link in a circle to directory", `ln -s x x; echo 1 > a`, `rm x; mkdir x; echo 1 > x/y; echo 2 > a`,
			"object below a former link that git cannot follow: x/y\nempty directory: x/\n", `a: file false "2\n"`},
		{"empty directory deleted", `mkdir -p x/y; echo 1 > x/f`, `rm -r x`, "empty directory that is to be deleted: x/y/\n", ``},
		{"directory left empty", `mkdir x; echo 1 > x/f`, `rm x/f`, "empty directory, which git deletes: x/\n", ``},
		{"directory left with a pipe", `mkdir x; echo 1 > x/f`, `rm x/f; mkfifo x/p`, "named pipe: x/p\nempty directory, which git deletes: x/\n", ``},
		{"directory with another file", `mkdir x; echo 1 > x/f`, `rm x/f; echo 2 > x/g`, "", `x/g: file false "2\n"`},
		{"empty directories", ``, `mkdir -p x/y z; echo 1 > f`, "3 empty directories: x/, x/y/, z/\n", `f: file false "1\n"`},
		{"modes", `echo 1 > a; chmod 600 a; echo 1 > b; echo 1 > d; chmod 600 d; mkdir e`, `chmod 644 a; chmod 700 b; echo 2 > d; chmod 700 e`,
			"4 modes that git does not know: a (0644), b (0700), d (0600), e/ (0700)\n", `a: file false "1\n"; b: file true "1\n"; d: file false "2\n"`},
		{"hard links", `echo 1 > a`, `echo 2 > b; ln b c`, "2 hard links: b, c\n", `a: file false "1\n"; b: file false "2\n"; c: file false "2\n"`},
		{"many", ``, `for i in 1 2 3 4 5 6 7 8 9 10 11; do mkfifo $i; done; echo 1 > f`, "11 named pipes\n", `f: file false "1\n"`},
		{"hostile name", ``, `mkfifo "$(printf 'a\033[31m\nb')"; echo 1 > f`, `named pipe: "a\x1b[31m\nb"` + "\n", `f: file false "1\n"`},
	}
	for i, tt := range tests {
		if !testenv.Turn(i) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.bin = bin
			w.must(t, "p", "", "sh", "-euc", "umask 022\n"+tt.before)
			_, lacks := w.session(t, tt.run)
			if got := strings.ReplaceAll(lacks, "nsrun: not in the patch: ", ""); got != tt.lacks {
				t.Errorf("it says\n%swant\n%s", got, tt.lacks)
			}
			var view []string
			got := gitView(t, w.path("copy"))
			for _, name := range slices.Sorted(maps.Keys(got)) {
				view = append(view, name+": "+got[name])
			}
			if v := strings.Join(view, "; "); v != tt.view {
				t.Errorf("the copy is\n%s\nwant\n%s", v, tt.view)
			}
		})
	}
}

// TestDiffAtTerminal: what is in files and in names does nothing to a terminal.
func TestDiffAtTerminal(t *testing.T) {
	s := atTerminal(t, "run", "--keep", "--", "sh", "-c", `printf '\033]0;evil\007\tx\n' > old; ln -s "$(printf 'a\033b')" "$(printf 'z\033[2J')"`)
	s.ends(t, 0)
	for _, colour := range []bool{true, false} {
		term := testenv.NewTerminal(t)
		c := exec.Command(s.cmd.Path, "diff")
		c.Dir, c.Env = s.cmd.Dir, slices.Clone(s.cmd.Env)
		if !colour {
			c.Env = append(c.Env, "NO_COLOR=1")
		}
		term.Attach(c)
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		term.Await(`\x1b]0;evil\a` + "\t")
		term.Await(`→ "a\x1bb"`) // the last line
		sequences := strings.Count(term.Screen(), "\x1b")
		for _, known := range []string{diff.Bold, diff.Red, diff.Green, diff.Cyan, diff.Normal} {
			sequences -= strings.Count(term.Screen(), known)
		}
		if sequences > 0 || colour != strings.Contains(term.Screen(), diff.Green) {
			t.Errorf("colour %v: the terminal shows %q", colour, term.Screen())
		}
	}
}

// TestDiffSwapped: while a diff is made, directories and files of the project and of the
// session are exchanged with links to somebody's secret. It is not in the output.
func TestDiffSwapped(t *testing.T) {
	testenv.Leaks(t, reap)
	w := newWorld(t)
	w.bin = installed(t)
	nsrun := filepath.Join(w.bin, "nsrun")
	testenv.Tree(t, w.dir, "others/", "victim/f: secret\n", "victim/sub/f: secret\n")
	testenv.Tree(t, w.path("p"), "d/f: old\n", "d/sub/f: old\n", "f: old\n", "gone/sub/f: old\n")
	w.must(t, "p", "", nsrun, "run", "-q", "--project", ".", "--", "sh", "-euc", "echo new > d/f; echo new > d/sub/f; echo new > f; rm -r gone; mkdir made; echo new > made/f")
	list, _ := filepath.Glob(w.path("home/.local/state/nsrun/sessions/*/upper/overlay1"))
	if len(list) != 1 {
		t.Fatalf("sessions: %q", list)
	}
	upper, victim := list[0], w.path("victim")
	others := w.path("others")
	var pairs []testenv.Pair
	for i, at := range []string{
		w.path("p/d"), w.path("p/f"), w.path("p/gone/sub"),
		filepath.Join(upper, "d/sub"), filepath.Join(upper, "f"), filepath.Join(upper, "made"),
	} {
		other := filepath.Join(others, fmt.Sprint(i))
		text := victim
		if filepath.Base(at) == "f" {
			text += "/f"
		}
		relink(t, text, other)
		pairs = append(pairs, testenv.Pair{A: at, B: other})
	}
	testenv.Swap(t, pairs...)
	flags := []string{"--patch", "--stat", "--color=never"}
	raceRuns(t, 30, func(i int) string {
		stdout, stderr, err := w.command(t, "p", "", nsrun, "diff", flags[i%len(flags)])
		if strings.Contains(stdout+stderr, "secret") {
			t.Fatalf("%s shows it:\n%s%s", flags[i%len(flags)], stdout, stderr)
		}
		if err != nil {
			return "refused"
		}
		return "shown"
	}, "shown")
	testenv.Fooled(t, func() bool { return isDir(pairs[0].A) }, func() bool {
		b, _ := os.ReadFile(filepath.Join(pairs[0].A, "f"))
		return string(b) == "secret\n"
	})
}
