//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"golang.org/x/sys/unix"
)

const secretLine = "S3CRET"

// A maker is somebody on the host who makes files all the time, replaces them as editors do, and removes them again.
type maker struct {
	stop, done chan struct{}
	rounds     atomic.Int64
}

func makeFiles(t *testing.T, names ...string) *maker {
	m := &maker{stop: make(chan struct{}), done: make(chan struct{})}
	put := func(name, text string) {
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		if err := errors.Join(os.WriteFile(name+".tmp", []byte(text), 0o644), os.Rename(name+".tmp", name)); err != nil {
			t.Error(err)
		}
	}
	go func() {
		defer close(m.done)
		for {
			// There are never more than that many: a copy of the project would take longer, in which more are made.
			number := strconv.FormatInt(m.rounds.Load()%100, 10)
			numbered := func(name string) string { return strings.ReplaceAll(name, "#", number) }
			for _, name := range names {
				if strings.Contains(name, "#") {
					_ = os.Remove(numbered(name))
				}
				if dir := filepath.Dir(name); strings.Contains(dir, "#") {
					_ = os.Remove(numbered(dir))
				}
			}
			for _, text := range [...]string{"\n", " again\n"} {
				for _, name := range names {
					put(numbered(name), secretLine+text)
				}
			}
			m.rounds.Add(1)
			select {
			case <-m.stop:
				return
			default:
			}
			for _, name := range names {
				_ = os.Remove(name)
				if filepath.Base(filepath.Dir(name)) == "new" {
					_ = os.Remove(filepath.Dir(name))
				}
			}
		}
	}()
	t.Cleanup(m.end)
	return m
}

// wait waits until there were some rounds.
func (m *maker) wait(rounds int) {
	for m.rounds.Load() < int64(rounds) {
		runtime.Gosched()
	}
}

func (m *maker) end() {
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	<-m.done
}

// TestBlockedLater: somebody on the host makes, replaces and removes a file that a rule hides, again and again: in old
// and new directories, of a project and of a read-only folder. The file stays hidden. The controls are names that no
// rule hides, and rules that only need to cover what exists.
func TestBlockedLater(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	hidden := []string{"p/.env", "p/old/.env", "p/old/er/.env", "p/new/.env", "shown/.env", "shown/sub/.env", "p/there/.env"}
	all := []string{"**/.env"}
	for _, c := range []struct {
		name   string
		config nsrun.Config
		rules  []string
		makes  []string
		seen   bool // the control
	}{
		{"paths", nsrun.Config{After: nsrun.Discard}, hidden, hidden, false},
		{"paths, tmpfs", nsrun.Config{After: nsrun.Discard, Engine: overlay.EngineTmpfs}, hidden, hidden, false},
		{"no rule for it", nsrun.Config{After: nsrun.Discard}, hidden, []string{"p/other#.env", "p/old/other#.env", "shown/other#.env"}, true},
		{"a pattern and a copy", nsrun.Config{After: nsrun.Discard, Engine: overlay.EngineCopy}, all, []string{"p/.env", "p/old/.env", "p/new#/.env"}, false},
		{"a pattern that is about what exists", nsrun.Config{After: nsrun.Discard, Engine: overlay.EngineOverlay, BlockExisting: true}, all, []string{"p/old/.env", "p/new#/.env"}, true},
		{"in place", nsrun.Config{Mode: nsrun.Direct, BlockExisting: true}, []string{"p/old/.env", "p/new/.env"}, []string{"p/old/.env", "p/new/.env"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			needFor(t, c.config)
			if c.config.Engine != overlay.EngineCopy && c.config.Mode != nsrun.Direct {
				need(t, features.Overlay)
			}
			dir := place(t, "file: 1")
			testenv.Tree(t, dir, "p/old/er/", "p/there/.env: "+secretLine, "shown/sub/")
			at := func(name string) string { return filepath.Join(dir, name) }
			c.config.Timeout = testenv.Patience
			c.config.Project, c.config.Shared = at("p"), []nsrun.Folder{{Path: at("shown"), Mode: nsrun.ReadOnly}}
			for _, name := range c.rules {
				if name == all[0] {
					name = "p/" + name
				}
				c.config.Rules = append(c.config.Rules, nsrun.Rule{Mode: nsrun.Blocked, Pattern: at(name)})
			}
			var names []string
			for _, name := range c.makes {
				names = append(names, at(name))
			}
			if !c.seen { // while a sandbox is made, too
				m := makeFiles(t, names...)
				for range testenv.Rounds(4, 200) {
					res, err := runner(t, c.config).Run(t.Context(), nsrun.Request{Command: "cat " + strings.Join(names, " ")})
					if strings.Contains(res.String(), secretLine) {
						t.Fatalf("%s, %v", res, err)
					}
				}
				m.end()
				_ = os.Remove(at("p/new/.env"))
				_ = os.Remove(at("p/new"))
			}
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer out.Close()
			globs := strings.ReplaceAll(strings.Join(names, " "), "#", "*")
			x, err := runner(t, c.config).Start(t.Context(), nsrun.Request{
				Command: "trap 'exit 0' TERM; echo; while :; do for f in " + globs + "; do read line <$f && echo $line && exit; done; done 2>/dev/null",
				Stdout:  out,
			})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = in.Read(make([]byte, 1))
			m := makeFiles(t, names...)
			if !c.seen { // else it ends when it sees one
				m.wait(testenv.Rounds(40, 5000))
				m.end()
				_ = x.Signal(unix.SIGTERM)
			}
			res, err := x.Wait()
			m.end()
			if err != nil {
				t.Error(err)
			}
			text := res.Stdout.String()
			if got := strings.Contains(text, secretLine); got != c.seen {
				t.Errorf("seen: %t, want %t", got, c.seen)
			}
		})
	}
}

// TestOwnName: a file that the command itself makes at a path that a rule hides is its own, and is committed like
// others. Its directory does not change otherwise.
func TestOwnName(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "p/a/b/")
	p := filepath.Join(dir, "p")
	if err := errors.Join(os.Chmod(filepath.Join(p, "a"), 0o711), os.Chmod(filepath.Join(p, "a/b"), 0o750)); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, AllowExec: true, Rules: pathRules(p, "block a/b/.env", "block c/d/.env")})
	res, err := r.Run(t.Context(), nsrun.Request{Command: "stat -c %a a a/b && echo own >a/b/.env && mkdir -p c/d && cat a/b/.env"})
	if err != nil || res.Stdout.String() != "711\n750\nown\n" {
		t.Fatalf("%s, %v", res, err)
	}
	var changes []string
	for _, c := range res.Changes {
		changes = append(changes, c.Kind.String()+" "+c.Path)
	}
	if got := strings.Join(changes, ", "); strings.Contains(got, "modified") || content(p, "a/b/.env") != "own\n" {
		t.Errorf("%s", got)
	}
	for name, want := range map[string]os.FileMode{"a": 0o711, "a/b": 0o750} {
		if fi, err := os.Stat(filepath.Join(p, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	// It is the host's now, and hidden.
	if got := sh(t, r, "cat a/b/.env"); !strings.Contains(got, "Permission denied") {
		t.Errorf("%q", got)
	}
}

// TestBlockedWithoutOverlay: where no overlay can be mounted over a directory, existing files are hidden all the same,
// and a notice says for how long. A rule for a missing file is an error.
func TestBlockedWithoutOverlay(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	testenv.Tree(t, dir, "t/")
	at := func(name string) string { return filepath.Join(dir, name) }
	mount := func(kind, target, data string) {
		t.Helper()
		if err := unix.Mount("none", at(target), kind, 0, data); err != nil {
			testenv.Skip(t, kind, err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(at(target), unix.MNT_DETACH) })
	}
	mount("tmpfs", "t", "")
	testenv.Tree(t, at("t"), "empty/", "files/", "files/key: "+secretLine, "files/tool: 1", "one/", "two/")
	// The kernel stacks two overlays, not three.
	mount("overlay", "t/one", "lowerdir="+at("t/empty")+":"+at("t/files"))
	mount("overlay", "t/two", "lowerdir="+at("t/empty")+":"+at("t/one"))
	c := nsrun.Config{Project: at("p"), After: nsrun.Discard, Rules: []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: at("t/two")}, {Mode: nsrun.Blocked, Pattern: at("t/two/key")}}}
	r := runner(t, c)
	res, err := r.Run(t.Context(), nsrun.Request{Command: "cd ../t/two; cat tool; cat key 2>/dev/null || echo blocked; touch new 2>/dev/null || echo read-only"})
	if err != nil || res.Stdout.String() != "1blocked\nread-only\n" {
		t.Errorf("%v, %q", err, res)
	}
	if len(res.Notices) != 1 || res.Notices[0].Kind != nsrun.NoticeLater {
		t.Errorf("notices %+v", res.Notices)
	}
	c.Rules[1].Pattern = at("t/two/other")
	if res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); res.Started || err == nil {
		t.Errorf("a blocked path that may appear later: %v, %v", err, res)
	}
}
