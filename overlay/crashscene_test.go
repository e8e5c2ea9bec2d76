//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A scene is two projects, what a command makes of them, and the upper directories that
// it leaves: all of it made once, and copied for each point.
type scene struct {
	before [2]string // templates
	after  [2]string // what the command sees in the end
	upper  [2]string

	// closed are new objects that their owner may not read. The templates hold them open;
	// close makes them what they are.
	closed []closedObject
	shut   []closedObject // old ones
}

type closedObject struct {
	root int
	path string
	mode uint32
}

var closedObjects = []closedObject{{0, "secret/f", 0}, {0, "secret", 0o300}, {1, "unreadable", 0}, {1, "secret", 0}}

// shutObjects are old objects that their owner may not read. The command opens or removes them, except the first.
var shutObjects = []closedObject{{0, "dark/in", 0o300}, {0, "dark", 0}, {0, "shut/in/f", 0}, {0, "shut/in", 0}, {0, "shut", 0},
	{1, "shut/in", 0}, {1, "shut", 0o500}, {1, "dark/old", 0}, {1, "dark", 0o300}}

// withShut makes scenes with shutObjects.
var withShut bool

// editor does what a command does to a tree, and stops at the first error.
type editor struct {
	top string
	err error
	at  time.Time
}

func (e *editor) do(path string, f func(p string) error) {
	if e.err != nil {
		return
	}
	if err := f(filepath.Join(e.top, path)); err != nil {
		e.err = fmt.Errorf("%s: %w", path, err)
	}
}

func (e *editor) file(path, text string) {
	e.do(path, func(p string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644))
	})
}

func (e *editor) mkdir(path string) {
	e.do(path, func(p string) error { return os.MkdirAll(p, 0o755) })
}
func (e *editor) link(path, text string) {
	e.do(path, func(p string) error { return os.Symlink(text, p) })
}
func (e *editor) hard(path, old string) {
	e.do(path, func(p string) error { return os.Link(filepath.Join(e.top, old), p) })
}
func (e *editor) fifo(path string) {
	e.do(path, func(p string) error { return unix.Mkfifo(p, 0o600) })
}
func (e *editor) remove(path string) { e.do(path, os.RemoveAll) }
func (e *editor) chmod(path string, mode os.FileMode) {
	e.do(path, func(p string) error { return os.Chmod(p, mode) })
}
func (e *editor) xattr(path, name, v string) {
	e.do(path, func(p string) error { return unix.Lsetxattr(p, name, []byte(v), 0) })
}
func (e *editor) unxattr(path, name string) {
	e.do(path, func(p string) error { return unix.Lremovexattr(p, name) })
}

// old gives an object a time of its own, so that a lost one is seen.
func (e *editor) old(path string) {
	e.at = e.at.Add(time.Hour + 123456*time.Microsecond)
	at := e.at
	e.do(path, func(p string) error {
		ts, err := unix.TimeToTimespec(at)
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// makeBefore makes the two projects. With chown some is somebody else's.
func makeBefore(tops [2]string, small, chown bool) error {
	var errs []error
	for i, top := range tops {
		e := &editor{top: top, at: time.Date(2020, 1, 2+i, 0, 0, 0, 0, time.UTC)}
		e.file("changed", "one\n")
		e.file("gone", "gone\n")
		e.file("src/same", "same\n")
		e.file("src/deep/er/changed", "deep\n")
		e.file("old/a", "a")
		e.file("old/sub/b", "b")
		e.link("old/sub/l", "../a")
		e.file("locked/in", "in\n")
		e.file("becomes-dir", "x")
		e.file("huge", "x")
		e.file("becomes-file/x", "x")
		e.file("opaque/x", "x")
		e.file("opaque/y", "y")
		e.mkdir("attrs")
		e.mkdir("closing")
		e.file("closing/f", "f\n")
		e.file("two/a", "two names\n")
		e.hard("two/b", "two/a")
		e.file("alone", "gets a name\n")
		e.link("link", "changed")
		e.file("time-only", "t")
		if withShut {
			e.file("shut/in/f", "cannot be read\n")
			e.file("shut/g", "g\n")
			e.file("dark/old", "old\n")
			e.file("dark/changed", "old\n")
			e.file("dark/in/f", "f\n")
		}
		if !small {
			for d := range 6 {
				for f := range 10 {
					e.file(fmt.Sprintf("src/d%d/f%02d.go", d, f), fmt.Sprintf("file %d %d of %d\n", d, f, i))
				}
				e.file(fmt.Sprintf("rm%d/a", d), "a")
				e.file(fmt.Sprintf("rm%d/b/c", d), "c")
				e.file(fmt.Sprintf("keep/k%d", d), "k")
			}
			e.mkdir("keep/empty")
			e.file("large", strings.Repeat("0123456789abcdef", 20000))
			e.file("t/file-to-link", "x")
			e.link("t/link-to-file", "file-to-link")
			e.link("t/link-to-dir", "nowhere")
			e.file("t/dir-to-link/in/side", "x")
			e.file("t/file-to-fifo", "x")
			e.fifo("t/fifo-to-file")
			e.mkdir("t/empty-dir-to-file")
			e.fifo("t/fifo-to-dir")
			e.file("three/a", "three names\n")
			e.hard("three/b", "three/a")
			e.hard("three/c", "three/a")
			e.file("x/has", "attributes")
			e.xattr("x/has", "user.one", "1")
			e.xattr("x/has", "user.two", "2")
			e.mkdir("x/dir")
			e.xattr("x/dir", "user.d", "1")
			e.file("ro/f", "x")
			e.file("ro/sub/g", "x")
			e.file("names/new\nline", "x")
			e.file("names/-rf", "x")
			e.file("names/\xff\xfe", "x")
			e.file("moved/a", "a")
			e.file("moved/b/c", "c")
		}
		e.chmod("locked", 0o555)
		if !small {
			e.chmod("ro/sub", 0o500)
			e.chmod("ro", 0o555)
		}
		if chown {
			e.do("gone", func(p string) error { return os.Lchown(p, 1234, 5678) })
			e.do("attrs", func(p string) error { return os.Lchown(p, 1234, 5678) })
		}
		if e.err == nil {
			var paths []string
			e.err = filepath.Walk(top, func(p string, _ os.FileInfo, err error) error {
				rel, _ := filepath.Rel(top, p)
				paths = append(paths, rel)
				return err
			})
			for _, p := range slices.Backward(paths) {
				e.old(p)
			}
		}
		errs = append(errs, e.err)
	}
	return errors.Join(errs...)
}

// edit does to the two trees what the command does. With chown it changes owners, too.
func edit(tops [2]string, small, chown bool) error {
	var errs []error
	for i, top := range tops {
		e := &editor{top: top, at: time.Date(2021, 1, 2+i, 0, 0, 0, 0, time.UTC)}
		e.file("changed", "another\n")
		e.old("changed")
		e.remove("gone")
		e.file("src/deep/er/changed", "deep, changed\n")
		e.remove("old")
		e.file("new/f", "new\n")
		e.file("new/sub/g", "new\n")
		e.link("new/sub/l", "../f")
		e.mkdir("new/empty")
		e.chmod("locked", 0o755)
		e.file("locked/new", "new\n")
		e.chmod("locked", 0o555)
		e.remove("becomes-dir")
		e.file("becomes-dir/in/side", "x")
		e.remove("becomes-file")
		e.file("becomes-file", "now a file")
		e.remove("opaque")
		e.file("opaque/x", "other x")
		e.file("opaque/z", "z")
		e.xattr("attrs", "user.new", "v")
		e.chmod("attrs", 0o700)
		e.chmod("closing", 0o555)
		e.remove("two/b")
		e.hard("alone2", "alone")
		e.remove("link")
		e.link("link", "gone")
		e.old("time-only")
		if withShut {
			e.remove("shut")
			e.remove("dark/old")
			e.file("dark/changed", "changed\n")
			e.file("dark/new", "new\n")
		}
		e.file("secret/f", "cannot be read\n")
		e.file("unreadable", "cannot be read\n")
		e.do("huge", func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 1<<20)) })
		if !small {
			for d := range 6 {
				for f := range 4 {
					e.file(fmt.Sprintf("src/d%d/f%02d.go", d, f), fmt.Sprintf("changed %d %d of %d\n", d, f, i))
				}
				e.remove(fmt.Sprintf("src/d%d/f04.go", d))
				e.remove(fmt.Sprintf("src/d%d/f05.go", d))
				e.chmod(fmt.Sprintf("src/d%d/f06.go", d), 0o755)
				e.xattr(fmt.Sprintf("src/d%d/f07.go", d), "user.x", "y")
				e.file(fmt.Sprintf("src/d%d/new.go", d), "new\n")
				e.old(fmt.Sprintf("src/d%d", d))
				e.remove(fmt.Sprintf("rm%d", d))
				e.file(fmt.Sprintf("added%d/f", d), "f")
				e.file(fmt.Sprintf("added%d/sub/empty", d), "")
				e.link(fmt.Sprintf("added%d/sub/dangling", d), "/nonexistent")
				e.chmod(fmt.Sprintf("added%d/sub", d), 0o555)
			}
			e.file("large", strings.Repeat("fedcba9876543210", 20001))
			for _, name := range []string{"file-to-link", "link-to-file", "link-to-dir", "dir-to-link", "file-to-fifo", "fifo-to-file", "empty-dir-to-file", "fifo-to-dir"} {
				e.remove("t/" + name)
			}
			e.link("t/file-to-link", "x")
			e.file("t/link-to-file", "x")
			e.file("t/link-to-dir/x", "x")
			e.link("t/dir-to-link", "../src")
			e.fifo("t/file-to-fifo")
			e.file("t/fifo-to-file", "x")
			e.file("t/empty-dir-to-file", "x")
			e.mkdir("t/fifo-to-dir")
			e.remove("three/b")
			e.file("three/b", "no link any more\n")
			e.file("hard/1", "three new names\n")
			e.hard("hard/2", "hard/1")
			e.mkdir("hard/sub")
			e.hard("hard/sub/3", "hard/1")
			e.unxattr("x/has", "user.one")
			e.xattr("x/has", "user.two", "22")
			e.xattr("x/dir", "user.d", "2")
			e.mkdir("x/newdir")
			e.xattr("x/newdir", "user.n", "n")
			e.chmod("ro", 0o755)
			e.chmod("ro/sub", 0o755)
			e.file("ro/sub/g", "changed")
			e.file("ro/sub/h", "new")
			e.remove("ro/f")
			e.chmod("ro/sub", 0o500)
			e.chmod("ro", 0o555)
			e.file("names/new\nline", "y")
			e.remove("names/-rf")
			e.file("names/\xff\xfe", "y")
			e.file("names/\x1b[31m", "y")
			e.do("sparse", func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 1<<20)) })
			e.file("sticky/f", "x")
			e.chmod("sticky", 0o755|os.ModeSticky)
			e.old("keep")
		}
		if chown {
			e.do("changed", func(p string) error { return os.Lchown(p, 4321, 8765) })
			e.do("attrs", func(p string) error { return os.Lchown(p, 4321, 8765) })
			e.do("src/same", func(p string) error { return os.Lchown(p, 4321, 8765) })
			e.do("new/sub", func(p string) error { return os.Lchown(p, 4321, 8765) })
		}
		e.old("new/sub")
		e.old("locked")
		errs = append(errs, e.err)
	}
	if !small {
		// A tree that is moved is another one for an overlay: what was there is gone.
		from, to := filepath.Join(tops[0], "moved"), filepath.Join(tops[1], "moved")
		errs = append(errs, os.RemoveAll(to), copyTree(from, mustMkdir(to)), os.RemoveAll(from))
		errs = append(errs, os.Chmod(tops[1], 0o750))
	}
	return errors.Join(errs...)
}

func mustMkdir(p string) string {
	if err := os.Mkdir(p, 0o755); err != nil {
		panic(err)
	}
	return p
}

// newScene makes the templates below dir.
func newScene(t testing.TB, dir string, small bool) *scene {
	t.Helper()
	return newSceneOf(t, dir, small, testenv.Root())
}

func newSceneOf(t testing.TB, dir string, small, chown bool) *scene {
	t.Helper()
	sc := &scene{closed: closedObjects}
	if withShut {
		sc.shut = shutObjects
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		for name, list := range map[string]*[2]string{"before": &sc.before, "after": &sc.after, "upper": &sc.upper} {
			list[i] = filepath.Join(dir, fmt.Sprintf("%s%d", name, i+1))
			check(os.Mkdir(list[i], 0o755))
		}
	}
	check(makeBefore(sc.before, small, chown))
	var was [2]family
	for i := range 2 {
		check(copyTree(sc.before[i], sc.after[i]))
		var err error
		was[i], err = inodesOf(sc.after[i])
		check(err)
	}
	check(edit(sc.after, small, chown))
	for i := range 2 {
		check(makeUpperTree(sc.before[i], sc.after[i], sc.upper[i], was[i]))
	}
	return sc
}

// close changes the modes in copies of templates, so that the owner may not read what must be unreadable.
func (sc *scene) close(tops [2]string) error { return shut(tops, sc.closed) }

func shut(tops [2]string, list []closedObject) error {
	for _, c := range list {
		if err := os.Chmod(filepath.Join(tops[c.root], c.path), os.FileMode(c.mode)); err != nil {
			return err
		}
	}
	return nil
}

// A stand is a copy of the scene on which something is tried: two projects, and a
// session that changed them.
type stand struct {
	dir      string
	projects [2]string
	state    string // the state directory
	id       string
}

// stand makes a new one. The projects are made in dir, the sessions in state, which is not
// there yet.
func (sc *scene) stand(t testing.TB, dir, state string) *stand {
	t.Helper()
	st := &stand{dir: dir, state: state}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		st.projects[i] = filepath.Join(dir, fmt.Sprintf("p%d", i+1))
		check(os.Mkdir(st.projects[i], 0o755))
		check(copyTree(sc.before[i], st.projects[i]))
	}
	check(shut(st.projects, sc.shut))
	s, err := Create(Options{Roots: st.projects[:], Dir: state, Command: []string{"test"}})
	check(err)
	st.id = s.ID()
	var uppers [2]string
	for i, r := range s.Roots() {
		uppers[i] = r.Upper
		check(copyTree(sc.upper[i], r.Upper))
	}
	check(sc.close(uppers))
	check(s.Close())
	return st
}

func (st *stand) drop(t testing.TB) {
	t.Helper()
	removeAll(t, st.dir)
	if filepath.Dir(st.state) != st.dir {
		removeAll(t, st.state)
	}
}

// removeAll is os.RemoveAll for what its owner may not read, too.
func removeAll(t testing.TB, p string) {
	t.Helper()
	parent, err := tree.OpenAbs(filepath.Dir(p), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if err := tree.RemoveTree(parent, filepath.Base(p)); err != nil {
		t.Fatal(err)
	}
}

// wantAfter is the fingerprint of what the command saw.
func (sc *scene) wantAfter(t testing.TB, dir string) []string {
	t.Helper()
	var tops [2]string
	for i := range 2 {
		tops[i] = filepath.Join(dir, fmt.Sprintf("want%d", i+1))
		if err := errors.Join(os.Mkdir(tops[i], 0o755), copyTree(sc.after[i], tops[i])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(shut(tops, sc.shut[:min(1, len(sc.shut))]), sc.close(tops)); err != nil {
		t.Fatal(err)
	}
	list := prints(t, tops[0], tops[1])
	removeAll(t, tops[0])
	removeAll(t, tops[1])
	return list
}

// TestSceneIsReal: a command in a sandbox, with overlays of the kernel's, leaves a
// session with the same changes as the upper directories that are written by hand.
func TestSceneIsReal(t *testing.T) {
	testenv.Once(t)
	skipMissing(t, features.Get(features.Overlay).Err())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, small := range []bool{true, false} {
		dir := tempDir(t)
		// Ids other than one's own do not exist in the sandbox.
		sc := newSceneOf(t, mustMkdir(filepath.Join(dir, "scene")), small, false)
		hand := sc.stand(t, mustMkdir(filepath.Join(dir, "1")), filepath.Join(dir, "1-state"))
		want, err := hand.outcome(t)
		if err != nil {
			t.Fatal(err)
		}
		real := sc.stand(t, mustMkdir(filepath.Join(dir, "2")), filepath.Join(dir, "2-state"))
		s, err := Create(Options{Roots: real.projects[:], Dir: real.state})
		if err != nil {
			t.Fatal(err)
		}
		sandbox(t, s, fmt.Sprintf("%s=%v exec %s", sceneEnv, small, exe))
		real.id = s.ID()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := real.outcome(t)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(got.changes, want.changes); len(d) > 0 {
			t.Errorf("small: %v: changes differ:\n%s", small, strings.Join(d, "\n"))
		}
		if !small && len(want.changes) < 200 {
			t.Errorf("only %d changes", len(want.changes))
		}
	}
}

// sceneEnv makes the test binary do what the command of a scene does, in a sandbox.
const sceneEnv = "NSRUN_OVERLAY_TEST_SCENE"

func sceneHelper() int {
	tops := [2]string{os.Getenv("ROOT1"), os.Getenv("ROOT2")}
	err := edit(tops, os.Getenv(sceneEnv) == "true", false)
	if err == nil {
		err = (&scene{closed: closedObjects}).close(tops)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
