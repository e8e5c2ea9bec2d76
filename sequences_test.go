//go:build linux

package nsrun_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// A world is a random tree with random rules for it, and a Config. Files that are hidden
// have the text marker in them, those that are read-only the text steady.
type world struct {
	r       *rand.Rand
	dir, p  string
	config  nsrun.Config
	attack  attack
	outside []string // trees that nobody writes to
	before  map[string][]string
	refused int // runs that were not begun
	started int
}

const (
	marker = "MARKER of what is hidden"
	steady = "STEADY text that is read-only"

	worldRuns      = 4
	runSequences   = 10
	sequenceLength = 12
)

// TestSequences: hostile commands change trees at random (see attack), one after the other and at the same time. They
// read no hidden byte and write nothing outside, and read-only files stay as they are.
func TestSequences(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	runs := testenv.Rounds(24, 10_000/runSequences)
	began, refused, seed := 0, 0, uint64(0)
	for ; began < runs && refused <= runs; seed++ {
		w := newWorld(t, seed)
		for run := range worldRuns {
			w.run(t, seed, uint64(run))
			if t.Failed() {
				t.Fatalf("world %d, run %d: %+v", seed, run, w.config)
			}
		}
		began, refused = began+w.started, refused+w.refused
	}
	t.Logf("%d worlds, %d runs of %d sequences, %d more refused", seed, began, runSequences, refused)
	if began < refused {
		t.Errorf("only %d runs were begun, %d were refused", began, refused)
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	dir := place(t)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "configuration")) // else ~/.config is not to be written to
	w := &world{r: rand.New(rand.NewPCG(seed, 1)), dir: dir, p: filepath.Join(dir, "p"), before: map[string][]string{}}
	// Directories of directories of files.
	var dirs, files []string
	for _, a := range []string{"a", "b"} {
		for _, b := range []string{"c", "d"} {
			for _, c := range []string{"e", "f"} {
				d := filepath.Join(a, b, c)
				dirs = append(dirs, d, filepath.Join(a, b))
				files = append(files, filepath.Join(d, "1"), filepath.Join(d, "2"))
			}
			files = append(files, filepath.Join(a, b, "3"))
		}
	}
	for i, f := range files {
		testenv.Tree(t, w.p, fmt.Sprintf("%s: file %d", f, i))
	}
	testenv.Tree(t, dir, "out/sub/f: outside", "out/key: "+marker, "home/.ssh/key: "+marker, "home/.config/gh/token: "+marker,
		"home/.config/git/credentials: "+marker, "home/.config/git/config: x", "home/.config/app/f: x", "extra/x/y/z/key: "+marker, "extra/x/y/f: x")
	c := &w.config
	c.BlockExisting = true // nobody else is there who could replace anything
	c.Project, c.NoPlayground = w.p, w.r.IntN(2) == 0
	switch w.r.IntN(5) {
	case 0, 1:
		c.Mode = nsrun.Direct
		testenv.Tree(t, w.p, ".git/config: "+steady, ".git/logs/HEAD: "+steady, ".git/refs/heads/main: "+steady)
		w.attack.Steady = append(w.attack.Steady, filepath.Join(w.p, ".git/config"), filepath.Join(w.p, ".git/logs/HEAD"))
	case 2:
		c.Engine, c.After = overlay.EngineTmpfs, nsrun.Commit
	case 3:
		c.Engine = overlay.EngineCopy
	default:
		c.Engine, c.After = overlay.EngineOverlay, []nsrun.After{nsrun.Keep, nsrun.Commit}[w.r.IntN(2)]
	}
	rule := func(mode nsrun.Mode, path string) {
		c.Rules = append(c.Rules, nsrun.Rule{Mode: mode, Pattern: path})
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rule(nsrun.ReadOnly, exe)
	// Of what is given twice later rules win: those that hide come last.
	if w.r.IntN(2) == 0 {
		rule(nsrun.Direct, filepath.Join(dir, "extra"))
		w.attack.Roots = append(w.attack.Roots, filepath.Join(dir, "extra"))
	}
	if w.r.IntN(2) == 0 {
		rule(nsrun.Direct, filepath.Join(dir, "home/.config"))
		w.attack.Roots = append(w.attack.Roots, filepath.Join(dir, "home/.config"))
	}
	switch w.r.IntN(3) {
	case 0:
		rule(nsrun.Direct, filepath.Join(w.p, dirs[w.r.IntN(len(dirs))]))
	case 1:
		rule(nsrun.Direct, filepath.Join(w.p, "*/d"))
	}
	picked := w.r.Perm(len(files))
	for _, i := range picked[:1+w.r.IntN(2)] {
		name := filepath.Join(w.p, files[i])
		rule(nsrun.ReadOnly, name)
		w.attack.Steady = append(w.attack.Steady, name)
	}
	if w.r.IntN(3) == 0 {
		rule(nsrun.ReadOnly, filepath.Join(w.p, "*/c/e"))
	}
	for _, i := range picked[3 : 4+w.r.IntN(3)] {
		path := filepath.Join(w.p, files[i])
		if w.r.IntN(3) == 0 && !slices.ContainsFunc(w.attack.Steady, func(s string) bool { return strings.HasPrefix(s, filepath.Dir(path)+"/") }) {
			path = filepath.Dir(path)
		}
		rule(nsrun.Blocked, path)
	}
	if slices.ContainsFunc(w.attack.Roots, func(s string) bool { return strings.HasSuffix(s, "extra") }) {
		rule(nsrun.Blocked, filepath.Join(dir, "extra/x/y/z"))
	}
	for _, r := range c.Rules {
		if r.Mode == nsrun.Blocked {
			w.attack.Hidden = append(w.attack.Hidden, r.Pattern)
			mark(t, r.Pattern, marker)
		}
	}
	for _, name := range w.attack.Steady {
		mark(t, name, steady)
	}
	w.attack.Hidden = append(w.attack.Hidden, filepath.Join(dir, "home/.ssh/key"), filepath.Join(dir, "home/.config/gh/token"), filepath.Join(dir, "home/.config/git/credentials"))
	w.attack.Roots = append(w.attack.Roots, w.p)
	// Nothing leads out of the test's own directory, so that a mistake in what is tested costs
	// nobody anything.
	w.attack.Victims = []string{filepath.Join(dir, "out"), filepath.Join(dir, "out/key"), filepath.Join(dir, "out/sub"), filepath.Join(dir, "home/.ssh"), filepath.Join(dir, "home")}
	w.outside = []string{filepath.Join(dir, "out"), filepath.Join(dir, "home/.ssh")}
	for _, tree := range w.outside {
		w.before[tree] = testenv.Listing(t, tree)
	}
	return w
}

// mark writes a text to a file, or to all that are in a directory.
func mark(t *testing.T, path, text string) {
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run is one run of the attack, or two side by side, and a look at what came of it.
func (w *world) run(t *testing.T, seed, run uint64) {
	n := 1
	if w.config.Mode == nsrun.Direct && w.r.IntN(3) == 0 {
		n = 2
	}
	exe, _ := os.Executable()
	r := nsrun.NewRunner(w.config)
	var all sync.WaitGroup
	results, errs := make([]nsrun.Result, n), make([]error, n)
	for i := range n {
		a := w.attack
		a.Seed = [2]uint64{seed, run*2 + uint64(i)}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			results[i], errs[i] = r.Run(t.Context(), nsrun.Request{Args: []string{exe, attackArg, string(text)}, WorkingDir: "/", Env: []string{"GORACE=atexit_sleep_ms=0"}})
		})
	}
	all.Wait()
	for i, res := range results {
		switch {
		case res.Started && res.Stdout.String() != attackDone:
			t.Errorf("%s%s", res.Stdout, res.Stderr)
		case res.Started:
			w.started++
		case run == 0 && n == 1: // else the other one may have been quicker
			t.Errorf("the first run: %v", errs[i])
		default:
			w.refused++
		}
	}
	// A session that was kept is gone on with by somebody else.
	if s := r.Session(); s != nil && w.config.Session == "" && w.config.After == nsrun.Keep {
		w.config.Session, w.config.Engine = s.ID(), 0
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if w.config.Session != "" {
		if s, err := overlay.OpenReadOnly("", w.config.Session); err != nil {
			w.config.Session = "" // nothing was changed
		} else {
			_ = s.Close()
		}
	}
	for _, tree := range w.outside {
		if d := testenv.Difference(t, tree, w.before[tree]); d != "" {
			t.Errorf("outside, %s: %s", tree, d)
		}
	}
	for _, name := range w.attack.Steady {
		if got := content(name); got != steady {
			t.Errorf("%s has %q", name, got)
		}
	}
	for _, name := range w.attack.Hidden {
		if fi, err := os.Stat(name); err != nil || fi.Mode().IsRegular() && content(name) != marker {
			t.Errorf("%s: %v, %q", name, err, content(name))
		}
	}
	// After a refused run, the caller removes the obstacle.
	if results[0].Started {
		return
	}
	w.config.Session = ""
	_ = filepath.WalkDir(w.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type() == fs.ModeSymlink {
			_ = os.Remove(name)
		}
		return nil
	})
	for _, r := range w.config.Rules {
		if r.Mode == nsrun.Direct && !strings.Contains(r.Pattern, "*") {
			_ = os.MkdirAll(r.Pattern, 0o755)
		}
	}
}

// TestSequencesControl: the same attack, in a sandbox without the rules, finds and changes
// all.
func TestSequencesControl(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	w := newWorld(t, 1)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(w.dir, "out")
	c := nsrun.Config{Project: w.p, Mode: nsrun.Direct, NoPlayground: true, Rules: []nsrun.Rule{
		{Mode: nsrun.ReadOnly, Pattern: exe}, {Mode: nsrun.Direct, Pattern: out}, {Mode: nsrun.Direct, Pattern: filepath.Join(w.dir, "extra")},
	}}
	w.attack.Roots = append(w.attack.Roots, out)
	text, err := json.Marshal(w.attack)
	if err != nil {
		t.Fatal(err)
	}
	got := output(t, runner(t, c), nsrun.Request{Args: []string{exe, attackArg, string(text)}, WorkingDir: "/"})
	if d := testenv.Difference(t, out, w.before[out]); d == "" || !strings.Contains(got, "hidden, and") || !strings.Contains(got, "read-only, and") {
		t.Errorf("%q; outside: %s", got, d)
	}
}

// TestAttackStaysInside: outside of a sandbox the attack does not begin.
func TestAttackStaysInside(t *testing.T) {
	if contained() {
		testenv.Skip(t, "writable-root", "the root directory is read-only here")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(exe, attackArg, "{}").CombinedOutput(); err == nil || !strings.Contains(string(out), "not in a sandbox") {
		t.Errorf("%v, %s", err, out)
	}
}
