//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/rulecases"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

var ruleModes = map[string]nsrun.Mode{"rw": nsrun.Direct, "ro": nsrun.ReadOnly, "block": nsrun.Blocked}

// pathRules are rules as a table has them, for a project.
func pathRules(project string, texts ...string) (list []nsrun.Rule) {
	for _, text := range texts {
		kind, pattern, _ := strings.Cut(text, " ")
		list = append(list, nsrun.Rule{Mode: ruleModes[kind], Pattern: pathrule.Anchor(project, pattern)})
	}
	return list
}

// TestRuleCases: sandboxes follow the table of package rulecases: with an overlay, with a copy, and if commands write
// in place.
func TestRuleCases(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, rulecases.Tree...)
	p, home := filepath.Join(dir, "p"), filepath.Join(dir, "home")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	try := func(t *testing.T, config nsrun.Config, c rulecases.Case) {
		config.Rules, config.BlockExisting = pathRules(p, c.Rules...), true
		var script strings.Builder
		names := slices.Sorted(maps.Keys(c.Want))
		for _, name := range names {
			at := filepath.Join(p, name)
			if rest, ok := strings.CutPrefix(name, "~/"); ok {
				at = filepath.Join(home, rest)
			}
			fmt.Fprintf(&script, "f=%s; r=; w=; { cat <$f || ls $f/ ; } >/dev/null 2>&1 && r=r; { true >>$f; } 2>/dev/null && w=w; echo \"$r$w\"\n", escape.Command([]string{at}))
		}
		got := strings.Split(sh(t, runner(t, config), script.String()), "\n")
		for i, name := range names {
			want := map[string]string{"rw": "rw", "ro": "r", "hidden": "", "-": "rw"}[c.Want[name]]
			if i >= len(got) || c.Want[name] == "-" && !filepath.IsLocal(name) {
				continue // the host's
			}
			if strings.HasPrefix(name, "~/") && c.Want[name] == "-" {
				continue
			}
			if strings.HasPrefix(name, "~/") {
				got[i] = strings.TrimSuffix(got[i], "w") // the home directory is in a private place here
			}
			if got[i] != want {
				t.Errorf("%q: %s is %q, want %q", c.Rules, name, got[i], want)
			}
		}
		if len(got) < len(names) {
			t.Errorf("%q: %q", c.Rules, got)
		}
	}
	for i, c := range rulecases.All {
		t.Run(c.Name, func(t *testing.T) {
			if n := testenv.Rounds(3, 1); i%n == 0 {
				try(t, nsrun.Config{Project: p, After: nsrun.Discard, Engine: overlay.EngineCopy}, c)
				try(t, nsrun.Config{Project: p, Mode: nsrun.Direct}, c)
			}
			last := nsrun.Config{Project: p, After: nsrun.Discard, Engine: overlay.EngineOverlay}
			needFor(t, last)
			try(t, last, c)
		})
	}
}

// TestRuleMistakes: a mistake in a rule is reported in one line, and nothing is run.
func TestRuleMistakes(t *testing.T) {
	dir := place(t)
	t.Setenv("XDG_RUNTIME_DIR", "")
	for _, c := range rulecases.Mistakes {
		_, err := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Rules: pathRules(dir, c.Rule)}).Run(t.Context(), nsrun.Request{Command: "true"})
		if e, ok := errors.AsType[*nsrun.RuleError](err); !ok || e.Err.Error() != c.Want {
			t.Errorf("%s: %v, want %s", c.Rule, err, c.Want)
		}
	}
	for _, c := range []struct {
		rules []string
		want  string
	}{
		{[]string{"block keys", "block !keys/one.pem"}, "an exception has no effect there"},
		{[]string{"rw .."}, "the project " + filepath.Join(dir, "p") + " lies in it"},
	} {
		_, err := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Rules: pathRules(filepath.Join(dir, "p"), c.rules...)}).Run(t.Context(), nsrun.Request{Command: "true"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.rules, err, c.want)
		}
	}
}

// TestShownAbove: a read-only folder above the project makes what lies beside the project read-only, and leaves the
// project as it is, whatever the project's mode. A folder in the project is read-only.
func TestShownAbove(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: 1", "sub/f: 1")
	testenv.Tree(t, dir, "beside: 1")
	const write = "for f in ../beside f sub/f; do { echo 2 >>$f; } 2>/dev/null && echo -n $f' '; done; true"
	for _, mode := range []nsrun.Mode{nsrun.Overlay, nsrun.Direct} {
		for want, shared := range map[string]string{"f sub/f ": "", "../beside f ": "p/sub"} {
			for _, rule := range []bool{false, true} {
				c := nsrun.Config{Project: filepath.Join(dir, "p"), Mode: mode, After: nsrun.Discard}
				if shown := filepath.Join(dir, shared); rule {
					c.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: shown}}
				} else {
					c.Shared = []nsrun.Folder{{Path: shown, Mode: nsrun.ReadOnly}}
				}
				if mode == nsrun.Direct {
					c.After = 0
				}
				if got := sh(t, runner(t, c), write); got != want && (!rule || got != strings.TrimPrefix(want, "../beside ")) {
					t.Errorf("%s, %q, rule %v: %q", mode, shared, rule, got)
				}
			}
		}
	}
}

// TestReplacedFile: a command starts even while the host replaces a file that is hidden from it, with and without a
// Runner.
func TestReplacedFile(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	secret := filepath.Join(dir, "o", "secret")
	testenv.Tree(t, dir, "o/secret", "o/new")
	c := nsrun.Config{Project: filepath.Join(dir, "p"), Shared: []nsrun.Folder{{Path: filepath.Join(dir, "o"), Mode: nsrun.Direct}},
		Rules: []nsrun.Rule{{Pattern: secret, Mode: nsrun.Blocked}}}
	ctx, end := context.WithCancel(t.Context())
	replaced := make(chan error)
	go func() {
		for ctx.Err() == nil {
			err := os.Rename(filepath.Join(dir, "o", "new"), secret)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "o", "new"), []byte("hidden"), 0o600)
			}
			if err != nil {
				replaced <- err
				return
			}
		}
		replaced <- nil
	}()
	for _, c.Engine = range []overlay.Engine{0, overlay.EngineTmpfs, overlay.EngineCopy} {
		for _, c.After = range []nsrun.After{nsrun.Discard, nsrun.Keep} { // the session is mounted before the file is
			r := runner(t, c)
			for range testenv.Fewer(map[bool]int{true: 20, false: 6}[c.Engine == 0]) {
				if res, err := r.Run(t.Context(), nsrun.Request{Command: "echo begun"}); err != nil || res.String() != "begun\n" {
					t.Errorf("%v, %v: %v, %v", c.Engine, c.After, res, err)
					break
				}
			}
		}
	}
	spec := nsrun.Spec{Mounts: append(nsrun.BaseMounts(), mounts.Bind(dir, dir), mounts.Block(secret))}
	for range testenv.Fewer(60) {
		if err := spec.Command("true").Run(); err != nil {
			t.Errorf("without a Runner: %v", err)
			break
		}
	}
	end()
	if err := <-replaced; err != nil {
		t.Error(err)
	}
}

// TestGitNamedBefore: a rule that names a git directory holds although a later one makes a directory above it writable,
// where git directories are read-only otherwise. A later rule about the git directory itself takes that back.
func TestGitNamedBefore(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "host/", "host/r/", "host/r/.git/", "host/r/.git/hooks/", "host/r/.git/objects/", "host/r/.git/refs/", "host/r/.git/HEAD", "host/q/", "host/q/.git/", "host/q/.git/objects/", "host/q/.git/refs/", "host/q/.git/HEAD")
	for _, c := range []struct {
		rules []string
		want  string // what can be written to
	}{
		{[]string{"rw host"}, "host/new"},
		{[]string{"rw host", "rw host/r/.git"}, "host/new host/r/.git/new host/r/.git/hooks/new"},
		{[]string{"rw host/r/.git", "rw host"}, "host/new host/r/.git/new host/r/.git/hooks/new"},
		{[]string{"rw host/r/.git", "block host/none", "rw host"}, "host/new host/r/.git/new host/r/.git/hooks/new"},
		{[]string{"rw host/r/.git", "ro host/r/.git", "rw host"}, "host/new"},
		{[]string{"rw host/r/.git", "ro host", "rw host"}, "host/new"},
		{[]string{"rw host/r/.git", "ro host/r/.git/hooks", "rw host"}, "host/new"},
		{[]string{"rw host/*/.git", "rw host"}, "host/new"},
	} {
		config := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, BlockExisting: true, Rules: pathRules(dir, c.rules...)}
		script := "cd " + escape.Command([]string{dir}) + "; for f in host/new host/r/.git/new host/r/.git/hooks/new host/q/.git/new; do { true >$f; } 2>/dev/null && rm $f && echo $f; done; true"
		if got := strings.Join(strings.Fields(sh(t, runner(t, config), script)), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.rules, got, c.want)
		}
	}
}
