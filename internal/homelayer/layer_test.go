//go:build linux

package homelayer

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

const helperEnv = "HOMELAYER_TEST_HELPER"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		os.Exit(helper(path))
	}
	if path := os.Getenv(mergerEnv); path != "" {
		os.Exit(mergeOnce(path))
	}
	if path := os.Getenv(keeperEnv); path != "" {
		os.Exit(keepOnce(path))
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

func place(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.Dir(t), "homes", "p-1")
}

func take(t *testing.T, path string) *Layer {
	t.Helper()
	l, err := Take(path, "/p", filepath.Dir(filepath.Dir(path)), 0o750, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *Layer) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// text lists a tree: names, with what is in files.
func text(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.IsDir():
			name += "/"
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += ": " + string(b)
		case d.Type()&fs.ModeCharDevice != 0:
			name = "-" + name
		}
		list = append(list, name)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestTake: the first command has the layer to itself. Others, at the same time, have directories of their own over it;
// when the last one has ended, the layer has what they wrote.
func TestTake(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	a := take(t, path)
	if a.Upper() != path+"/upper" || a.Work() != path+"/work" || a.Lower() != nil {
		t.Errorf("%s, %s, %q", a.Upper(), a.Work(), a.Lower())
	}
	if fi, err := os.Stat(a.Upper()); err != nil || fi.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", fi, err)
	}
	testenv.Tree(t, a.Upper(), "a: 1")
	b := take(t, path)
	if !slices.Equal(b.Lower(), []string{a.Upper()}) || b.Upper() == a.Upper() {
		t.Errorf("%s over %q", b.Upper(), b.Lower())
	}
	testenv.Tree(t, b.Upper(), "b: 2", "d/f: 2")
	release(t, b)
	ended := b.Upper()[:len(b.Upper())-len("/upper")] + "+/upper"
	c := take(t, path)
	if !slices.Equal(c.Lower(), []string{ended, a.Upper()}) {
		t.Errorf("over %q", c.Lower())
	}
	release(t, c) // which wrote nothing
	release(t, a)
	if got := text(t, path); got != "boot lock: f measured:  project: /p upper/ upper/a: 1 upper/b: 2 upper/d/ upper/d/f: 2 work/" && got != "boot lock: f project: /p upper/ upper/a: 1 upper/b: 2 upper/d/ upper/d/f: 2 work/" {
		t.Error(got)
	}
	d := take(t, path)
	if d.Lower() != nil {
		t.Errorf("over %q", d.Lower())
	}
	release(t, d)
}

// TestMerge: whole files are moved. Of a file that both wrote, and of those beside it, the layer keeps its own.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name              string
		before, run, then []string // the layer's, the run's, and the layer's that come up meanwhile
		want              string
	}{
		{"new", []string{"a: 1"}, []string{"b: 2"}, nil, "a: 1 b: 2"},
		{"replaced", []string{"a: 1"}, []string{"a: 2"}, nil, "a: 2"},
		{"both", []string{"a: 1"}, []string{"a: 2"}, []string{"a: 3"}, "a: 3"},
		{"beside", []string{"db: 1"}, []string{"db: 2", "db-wal: 2", "d/x: 2"}, []string{"db: 3"}, "d/ d/x: 2 db: 3"},
		{"elsewhere", []string{"x/a: 1", "y/a: 1"}, []string{"x/a: 2", "y/a: 2"}, []string{"x/a: 3"}, "x/ x/a: 3 y/ y/a: 2"},
		{"new directories", nil, []string{"d/a: 2"}, []string{"d/b: 3"}, "d/ d/a: 2 d/b: 3"},
		{"deleted", []string{"a: 1"}, []string{"-a"}, nil, ""},
		{"deleted of the home directory", nil, []string{"-homes"}, nil, "-homes"},
		{"deleted in a directory", []string{"d/a: 1", "d/b: 1"}, []string{"d/c: 2", "-d/a"}, nil, "d/ d/b: 1 d/c: 2"},
		{"directory for a file", []string{"a: 1"}, []string{"a/b: 2"}, nil, "a/ a/b: 2"},
		{"directory for a newer file", nil, []string{"a/b: 2"}, []string{"a: 3"}, "a: 3"},
		{"file for a directory", []string{"a/b: 1"}, []string{"a: 2"}, nil, "a/ a/b: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Leaks(t)
			path := place(t)
			a := take(t, path)
			fill(t, a.Upper(), c.before)
			// Before and after the run begins, as the file system's clock has it.
			later(t, path)
			b := take(t, path)
			later(t, path)
			fill(t, b.Upper(), c.run)
			fill(t, a.Upper(), c.then)
			release(t, b)
			release(t, a)
			if got := text(t, path+"/upper"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if _, err := os.Lstat(path + "/runs"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// fill is testenv.Tree, that replaces files; "-name" marks one as deleted.
func fill(t *testing.T, dir string, lines []string) {
	t.Helper()
	for _, line := range lines {
		if name, deleted := strings.CutPrefix(line, "-"); deleted {
			if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR, 0); err != nil {
				t.Fatal(err)
			}
			continue
		}
		name, _, _ := strings.Cut(line, ":")
		_ = os.Remove(filepath.Join(dir, name))
		testenv.Tree(t, dir, line)
	}
}

// later waits until the clock of the file system has gone on.
func later(t *testing.T, dir string) {
	t.Helper()
	stamp := func() (ts unix.Timespec) {
		name := filepath.Join(dir, "stamp")
		var st unix.Stat_t
		if err := errors.Join(os.WriteFile(name, nil, 0o600), unix.Stat(name, &st), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
		return st.Ctim
	}
	first := stamp()
	testenv.Eventually(t, "a later time", func() bool { return stamp() != first })
}

// TestClockSetBack: a run is merged after those that began before it, whatever the clock says.
func TestClockSetBack(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	a, b := take(t, path), take(t, path)
	early := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10) + "-b"
	if err := os.Rename(path+"/runs/"+b.run, path+"/runs/"+early); err != nil {
		t.Fatal(err)
	}
	b.run = early
	c := take(t, path)
	if c.run <= early {
		t.Errorf("%s is before %s", c.run, early)
	}
	release(t, c)
	release(t, b)
	release(t, a)
}

// TestHostileTree: nsrun follows nothing that commands left in the layer, and can still use, measure and remove it.
func TestHostileTree(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	victim := filepath.Join(testenv.Dir(t), "victim")
	testenv.Tree(t, victim, "f: mine", "d/g: mine")
	a := take(t, path)
	b := take(t, path)
	deepDir := strings.Repeat("n/", 150)
	testenv.Tree(t, a.Upper(), "closed/f: 1", "link => "+victim, "way/x: 1")
	testenv.Tree(t, b.Upper(), "closed/g: 2", "link/f: 2", "way => "+victim, "shut/h: 2", deepDir+"f: 2")
	testenv.Tree(t, a.Upper(), deepDir+"g: 1")
	for _, name := range []string{a.Upper() + "/closed", b.Upper() + "/closed", b.Upper() + "/shut", b.Upper()} {
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(a.Upper()+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	release(t, b)
	removed, err := a.Bound(1<<40, []string{"link", "fifo", "way", "../x"}, true)
	if err != nil || removed != nil {
		t.Errorf("%q, %v", removed, err)
	}
	if removed := a.Clear([]string{"link/x", "fifo", "way", "none/x"}, []string{"closed"}); !slices.Equal(removed, []string{"link", "fifo", "closed"}) && !slices.Equal(removed, []string{"link", "fifo", "way", "closed"}) {
		t.Errorf("%q", removed)
	}
	release(t, a)
	c := take(t, path)
	if removed, err := c.Bound(0, []string{"shut", "link"}, true); err != nil || !slices.Contains(removed, "") {
		t.Errorf("%q, %v", removed, err)
	}
	release(t, c)
	if got := text(t, victim); got != "d/ d/g: mine f: mine" {
		t.Error(got)
	}
}

// TestBound: where a layer is too large, its caches go, the largest first, and no more than that takes.
func TestBound(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	l := take(t, path)
	big := strings.Repeat("x", 1<<20)
	testenv.Tree(t, l.Upper(), ".cache/a: "+big+big, ".npm/b: "+big, ".config/c: 1")
	if removed, err := l.Bound(100<<20, []string{".cache", ".npm"}, true); err != nil || removed != nil {
		t.Errorf("%q, %v", removed, err)
	}
	if removed, err := l.Bound(5<<19, []string{".npm", ".cache"}, false); err != nil || removed != nil {
		t.Errorf("the layer was measured again too soon: %q, %v", removed, err)
	}
	ahead := time.Now().Add(1000 * time.Hour) // the clock was set back since
	if err := os.Chtimes(path+"/"+measuredName, ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if removed, err := l.Bound(5<<19, []string{".npm", ".cache"}, false); err != nil || !slices.Equal(removed, []string{".cache"}) {
		t.Errorf("%q, %v", removed, err)
	}
	release(t, l)
	if got := text(t, path+"/upper"); got != ".cache/ .config/ .config/c: 1 .npm/ .npm/b: "+big {
		t.Errorf("%.200s", got)
	}
}

// TestRemove: Remove does not remove a layer that is in use. A removed layer is made again when a command needs it.
func TestRemove(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	l := take(t, path)
	testenv.Tree(t, l.Upper(), "a: 1")
	if err := Remove(path); !errors.Is(err, ErrBusy) {
		t.Errorf("a layer in use: %v", err)
	}
	dir := filepath.Dir(path)
	if list, err := Clean(dir, 0, false); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	release(t, l)
	if list, err := Clean(dir, time.Hour, false); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := Clean(dir, 0, true); err != nil || len(list) != 1 || list[0].Project != "/p" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := Clean(dir, 0, false); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	l = take(t, path)
	if got := text(t, l.Upper()); got != "" {
		t.Error(got)
	}
	release(t, l)
	if list, err := List(filepath.Join(dir, "none")); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// TestForeign: a layer that others can write to is refused.
func TestForeign(t *testing.T) {
	path := place(t)
	release(t, take(t, path))
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path, "/p", "/", 0o700, false); err == nil {
		t.Error("others can write to the layer")
	}
}

// helper uses the layer again and again, as commands do: it writes one file that others write, too, and one of its own.
func helper(path string) int {
	for i := range 1000 {
		l, err := Take(path, "/p", "/", 0o755, false)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		who := fmt.Sprintf("%d-%d", os.Getpid(), i)
		for _, name := range []string{"shared/file", "own/" + who} {
			file := filepath.Join(l.Upper(), name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".tmp", []byte(who), 0o644), os.Rename(file+".tmp", file)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		if err := l.Release(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(who)
	}
	return 0
}

// TestManyKilled: processes use a layer at once, and are killed at any moment, also while they merge. The layer then
// has whole files only, and the next process can use it.
func TestManyKilled(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	rounds := testenv.Rounds(6, 100)
	for range rounds {
		var list []*exec.Cmd
		var lines []*bufio.Reader
		for range 4 {
			c := exec.Command("/proc/self/exe")
			c.Env = append(os.Environ(), helperEnv+"="+path)
			var out strings.Builder
			c.Stderr = &out
			says, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			list, lines = append(list, c), append(lines, bufio.NewReader(says))
		}
		for i, c := range list {
			for range 1 + rand.N(3+2*i) { // any moment after that will do
				if _, err := lines[i].ReadString('\n'); err != nil {
					t.Error(err)
					break
				}
			}
			_ = c.Process.Kill()
			_ = c.Wait()
			if text := c.Stderr.(*strings.Builder).String(); text != "" {
				t.Error(text)
			}
		}
		l := take(t, path)
		if l.Lower() != nil {
			t.Errorf("no command uses the layer, but it is not merged: %q", l.Lower())
		}
		for name, what := range readDir(t, filepath.Join(l.Upper(), "own")) {
			if !strings.HasSuffix(name, ".tmp") && name != what {
				t.Errorf("%s has %q", name, what)
			}
		}
		release(t, l)
	}
	own := readDir(t, filepath.Join(path, "upper/own"))
	if len(own) < rounds {
		t.Errorf("only %d were written", len(own))
	}
}

func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = string(b)
	}
	return m
}

// TestWork: the work directory of a volatile overlay is put away when the command has ended, or, if its nsrun was
// killed, before the next one begins: the kernel refuses an overlay over it. Anybody can remove what was put away, and
// the next command's nsrun does.
func TestWork(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	left := func(l *Layer) {
		t.Helper()
		testenv.Tree(t, l.Work(), "work/incompat/volatile/dirty")
		for _, name := range []string{"work/incompat/volatile", "work/incompat", "work"} {
			if err := os.Chmod(filepath.Join(l.Work(), name), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := func(l *Layer) {
		t.Helper()
		if err := l.Again(); err != nil {
			t.Fatal(err)
		}
		if got := text(t, l.Work()); strings.Contains(got, "work") {
			t.Errorf("there is still %s", got)
		}
	}
	const away = "gone/ gone/incompat/ gone/incompat/volatile/ gone/incompat/volatile/dirty: "
	work := func(when, want string) {
		t.Helper()
		if got := text(t, filepath.Join(path, "work")); got != want {
			t.Errorf("%s: %s", when, got)
		}
	}
	a := take(t, path)
	left(a)
	none(a)
	left(a)
	other := take(t, path)
	left(other)
	none(other)
	release(t, other)
	release(t, a)
	work("a command has ended", away)
	n := take(t, path)
	n.Begun()
	n.tidying.Wait()
	work("the next one runs", "")
	left(n)
	release(t, n)
	m := take(t, path)
	left(m)
	release(t, m)
	work("nobody had time to remove it", away)
	b := take(t, path)
	b.Begun()
	left(b)
	b.tidying.Wait()
	b.close() // killed
	c := take(t, path)
	if c.Upper() != path+"/upper" {
		t.Errorf("the layer is not free: %s", c.Upper())
	}
	work("the next one begins", "")
	release(t, c)
}

// TestTakeUntyped: there is no layer where the kernel lays an overlay, and then does not find its own whiteouts.
func TestTakeUntyped(t *testing.T) {
	if !testenv.Root() {
		return // only root mounts here
	}
	if _, err := Take(filepath.Join(testenv.Untyped(t), "homes", "p"), "/p", "/home", 0o755, false); !errors.Is(err, ErrUnfit) {
		t.Errorf("%v", err)
	}
	l, err := Take(filepath.Join(testenv.Image(t, "ext4 in a file", "mke2fs", "-q", "-t", "ext4"), "homes", "p"), "/p", "/home", 0o755, false)
	if err != nil { // the control
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
