//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// renameTree is what the random renames begin with.
var renameTree = []string{"a/x/", "a/x/1", "a/x/y/2", "a/y/3", "b/x/4", "b/z/", "b/5", "c/y/x/6", "c/l => ../a/x", "d/", "e"}

// insideRenames does random calls in its working directory. It prints each result, and then the whole tree. args, a
// seed and a number of calls, alone determine what it does.
func insideRenames(args []string) int {
	seed, _ := strconv.ParseUint(args[0], 10, 64)
	n, _ := strconv.Atoi(args[1])
	r := rand.New(rand.NewPCG(seed, 2))
	name := func() string {
		parts := []string{string("abcde"[r.IntN(5)])}
		for range r.IntN(3) {
			parts = append(parts, string("xyz1"[r.IntN(4)]))
		}
		if r.IntN(8) == 0 {
			parts = append(parts, "")
		}
		return strings.Join(parts, "/")
	}
	for i := range n {
		from, to := name(), name()
		var op string
		var err error
		switch r.IntN(12) {
		case 0:
			op, err = "mkdir "+to, unix.Mkdir(to, 0o755)
		case 1:
			op, err = "rmdir "+to, unix.Rmdir(to)
		case 2:
			op, err = "unlink "+to, unix.Unlink(to)
		case 3:
			op, err = "write "+to, write(to, fmt.Sprint(seed, i))
		case 4:
			op, err = "link "+from+" "+to, unix.Link(from, to)
		case 5:
			op, err = "symlink "+to, unix.Symlink(from, to)
		case 6:
			op, err = "noreplace "+from+" "+to, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		case 7:
			op, err = "exchange "+from+" "+to, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		default:
			op, err = "rename "+from+" "+to, unix.Rename(from, to)
		}
		fmt.Println(op, err)
	}
	fmt.Println(strings.Join(listed("."), "\n"))
	return 0
}

func write(name, text string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	_ = unix.Close(fd)
	return err
}

// listed returns a list of the files below a directory: their modes, contents and the targets of links.
func listed(dir string) (list []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			list = append(list, err.Error())
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			list = append(list, err.Error())
			return nil
		}
		text := content(path)
		if d.Type() == fs.ModeSymlink {
			text, _ = os.Readlink(path)
		} else if d.IsDir() {
			text = ""
		}
		list = append(list, fmt.Sprint(rel, " ", info.Mode(), " ", text))
		return nil
	})
	return list
}

// natively runs one of insides without a sandbox.
func natively(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(self(t), args...)
	c.Dir, c.Env = dir, append(os.Environ(), insideEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("natively: %v\n%s", err, out)
	}
	return string(out)
}

// TestRenamesAsOutside: random calls that change a tree end the same in an overlay as without one, also while nsrun is
// notified of other calls. A commit makes the project what the command saw, and an undo restores it.
func TestRenamesAsOutside(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const calls = "60"
	kinds := map[string]nsrun.Config{
		"alone":   {},
		"why":     {Why: true},
		"network": {Net: netpolicy.MustParse("192.0.2.1:443"), Enforcer: nsrun.BrokerEnforcer},
		"tmpfs":   {Engine: overlay.EngineTmpfs},
	}
	for kind, c := range kinds {
		t.Run(kind, func(t *testing.T) {
			needFor(t, c)
			dir := place(t, renameTree...)
			c.Project = filepath.Join(dir, "p")
			r := runner(t, shown(t, c))
			for seed := range uint64(testenv.Rounds(4, 300)) {
				before := listed(c.Project)
				native := filepath.Join(dir, "native", strconv.FormatUint(seed, 10))
				if err := os.CopyFS(native, os.DirFS(c.Project)); err != nil {
					t.Fatal(err)
				}
				args := []string{strconv.FormatUint(seed, 10), calls}
				want := natively(t, native, "renames", args...)
				got := output(t, r, insideRequest(t, "renames", args...))
				if got != want {
					t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
				}
				id := ""
				if s := r.Session(); s != nil {
					id = s.ID()
				}
				if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got, want := listed(c.Project), listed(native); !slices.Equal(got, want) {
					t.Fatalf("seed %d: committed\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if seed%2 == 0 || id == "" {
					continue // the next one begins with what this one left
				}
				s, err := overlay.Open("", id)
				if err == nil {
					err = errors.Join(s.Undo(t.Context(), overlay.UndoOptions{}), s.Close())
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got := listed(c.Project); !slices.Equal(got, before) {
					t.Fatalf("seed %d: undone\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(before, "\n"))
				}
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q, after\n%s", i, g[i], w[i], strings.Join(g[:i], "\n"))
		}
	}
	return got + "\nwant\n" + want
}

// TestRenamedDirectory: what a renamed directory was, it is afterwards.
func TestRenamedDirectory(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "old/sub/f", "old/g", "f")
	p := filepath.Join(dir, "p")
	old := filepath.Join(p, "old")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Setxattr(filepath.Join(old, "sub"), "user.mark", []byte("kept"), 0))
	must(unix.Setxattr(filepath.Join(old, "sub"), "user.empty", nil, 0))
	must(unix.Chmod(filepath.Join(old, "sub"), 0o2750))
	times := []unix.Timespec{{Sec: 1e9}, {Sec: 1e9 + 1}}
	for _, name := range []string{"sub/f", "sub", "g", "."} {
		must(unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(old, name), times, 0))
	}
	must(unix.Mkdir(filepath.Join(p, "closed"), 0o444)) // nobody may search it
	r := runner(t, shown(t, nsrun.Config{Project: p}))
	got := output(t, r, moving(t, `"$0" 0 closed moved; stat -c '%n %a' moved; rmdir moved`))
	if want := "closed 0 <nil>\nmoved 444\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got = sh(t, r, `ls -i old/g | cut -d' ' -f1 >/tmp/g && mv -T old new && mkdir l && ln f l/f && tar cf /tmp/t new l && rm -r f l && stat -c '%n %a %Y' new new/sub new/sub/f new/g && ls -A && cat new/sub/f`)
	want := "new 755 1000000001\nnew/sub 2750 1000000001\nnew/sub/f 644 1000000001\nnew/g 644 1000000001\nnew\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	must(r.Commit(t.Context(), overlay.CommitOptions{}))
	value := make([]byte, 10)
	n, err := unix.Getxattr(filepath.Join(p, "new/sub"), "user.mark", value)
	if info, err2 := os.Stat(filepath.Join(p, "new/sub")); err != nil || string(value[:n]) != "kept" || err2 != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o750 {
		t.Errorf("committed: %q, %v, %v, %v", value[:n], err, info.Mode(), err2)
	}
	if _, err := unix.Getxattr(filepath.Join(p, "new/sub"), "user.empty", value); err != nil {
		t.Error("an attribute without a value:", err)
	}
}

// TestNoFanotify: in a session a program that watches files by fanotify gets an error at once, and uses inotify; with
// Config.Why, too. In place it has fanotify, if the kernel has it for users.
func TestNoFanotify(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	want := map[nsrun.Mode]string{nsrun.Overlay: unix.EPERM.Error() + "\n"}
	if os.Geteuid() != 0 && insideFanotify(nil) == 0 {
		want[nsrun.Direct] = "<nil>\n"
	}
	for mode, want := range want {
		for _, why := range []bool{false, true} {
			c := nsrun.Config{Project: p, Mode: mode, Why: why}
			needFor(t, c)
			if got := output(t, runner(t, shown(t, c)), insideRequest(t, "fanotify")); !strings.HasPrefix(got, want) {
				t.Errorf("%v, %v: %q, want %q", mode, why, got, want)
			}
		}
	}
}

// insideFanotify prints whether fanotify can be used.
func insideFanotify([]string) int {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_DFID_NAME|unix.FAN_CLOEXEC, unix.O_RDONLY)
	fmt.Println(err)
	if err != nil {
		return 1
	}
	_ = unix.Close(fd)
	return 0
}

// insideMove makes calls of renameat2(2), each of which is three words of args, and prints what comes of them.
func insideMove(args []string) int {
	for c := range slices.Chunk(args, 3) {
		flags, _ := strconv.Atoi(c[0])
		err := unix.Renameat2(unix.AT_FDCWD, c[1], unix.AT_FDCWD, c[2], uint(flags))
		fmt.Println(c[1], flags, err)
	}
	return 0
}

// moving is a request for a shell in which "$0" is insideMove.
func moving(t *testing.T, script string) nsrun.Request {
	q := insideRequest(t, "move")
	q.Args = []string{"/bin/sh", "-c", script, self(t)}
	return q
}

// TestRenamesAroundPins: a directory in which something is hidden or protected cannot be renamed, and what is hidden
// stays hidden; other directories can. In a copy of the project each such directory is another mount, and the kernel
// returns EXDEV.
func TestRenamesAroundPins(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineCopy} {
		t.Run(engine.String(), func(t *testing.T) {
			dir := place(t, "a/b/secret", "a/b/f", "steady/x/ro", "free/b/f")
			p := filepath.Join(dir, "p")
			if err := os.WriteFile(filepath.Join(p, "a/b/secret"), []byte(marker), 0o600); err != nil {
				t.Fatal(err)
			}
			c := nsrun.Config{Project: p, Engine: engine, Rules: []nsrun.Rule{
				{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "a/b/secret")}, {Mode: nsrun.ReadOnly, Pattern: filepath.Join(p, "steady/x/ro")},
			}}
			needFor(t, c)
			renamesAroundPins(t, runner(t, shown(t, c)), engine == overlay.EngineCopy)
		})
	}
}

func renamesAroundPins(t *testing.T, r *nsrun.Runner, mounts bool) {
	script := "mkdir -p with/it\n"
	for _, name := range []string{"a", "a/b", "steady", "steady/x", "a/b/secret", "steady/x/ro", "free"} {
		script += fmt.Sprintf("\"$0\" 0 %[1]s gone 1 %[1]s gone 2 %[1]s with 2 with %[1]s\n", name)
	}
	got := output(t, r, moving(t, script+"find . -name '.nsrun*'; ls -A; cat */b/secret */secret secret gone/secret with/secret steady/x/ro 2>/dev/null"))
	lines := strings.Split(got, "\n")
	for _, line := range lines[:6*4] {
		mounted := mounts || strings.Contains(line, "/secret ") || strings.Contains(line, "/ro ")
		if !strings.HasSuffix(line, " "+unix.EBUSY.Error()) && (!mounted || !strings.HasSuffix(line, " "+unix.EXDEV.Error())) {
			t.Errorf("%q", line)
		}
	}
	if lines[6*4] != "free 0 <nil>" || strings.Contains(got, marker) || strings.Contains(got, ".nsrun") || !strings.Contains(got, "\ngone\n") {
		t.Errorf("%s", got)
	}
}

// TestLinksOfGit: git's links of the project's files have the numbers that the files had, the files always exist, and
// hidden or read-only files stay so. Here ln(1) is called git. A file can be missed once: see replace in package
// renames.
func TestLinksOfGit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const files = 40
	tree := []string{"d/", "secret", "ro"}
	for i := range files {
		tree = append(tree, fmt.Sprintf("f%d: text", i))
	}
	dir := place(t, tree...)
	p := filepath.Join(dir, "p")
	r := runner(t, shown(t, nsrun.Config{Project: p, After: nsrun.Commit, Rules: []nsrun.Rule{
		{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "secret")}, {Mode: nsrun.ReadOnly, Pattern: filepath.Join(p, "ro")},
	}}))
	got := output(t, r, nsrun.Request{Command: `cp "$(command -v ln)" /tmp/git; stat -c '%n %i' f* >/tmp/before
while [ ! -e /tmp/done ]; do cat f* >/dev/null 2>&1 || cat f* >/dev/null || touch /tmp/missed; done & reader=$!
for f in f*; do /tmp/git $f d/$f || exit; done; touch /tmp/done; wait $reader
ls /tmp/missed 2>/dev/null; cat f0; cd d; stat -c '%n %i' f* | cmp - /tmp/before; cd ..
for f in secret ro; do /tmp/git $f d/$f 2>/dev/null && echo $f has a link; done; ls -A | grep nsrun; true`})
	if got != "text" {
		t.Errorf("%s", got)
	}
	for i := range files {
		a, err := os.Stat(filepath.Join(p, fmt.Sprint("f", i)))
		b, err2 := os.Stat(filepath.Join(p, fmt.Sprint("d/f", i)))
		if err != nil || err2 != nil || !os.SameFile(a, b) {
			t.Errorf("committed: %d: %v, %v", i, err, err2)
		}
	}
}

// TestLinkedNames: after ln(1), programs take the two names of a project's file for one, and refuse cp(1) of one over
// the other, which would empty both. That also holds if the file had another name before, and for a link to a link. A
// commit makes the links.
func TestLinkedNames(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: text", "two: text", "d/")
	p := filepath.Join(dir, "p")
	if err := os.Link(filepath.Join(p, "two"), filepath.Join(p, "other")); err != nil {
		t.Fatal(err)
	}
	r := runner(t, shown(t, nsrun.Config{Project: p, After: nsrun.Commit}))
	got := output(t, r, nsrun.Request{Command: `exec 3<f; for f in f two; do
ln $f d/$f && ln d/$f d/$f.more || exit
for name in d/$f d/$f.more; do test $f -ef $name || echo $f and $name differ; cp $f $name 2>/dev/null && echo $f is copied; done; done
cat f d/f.more two d/two; cat <&3; ls -A . d | grep nsrun; true`})
	if want := strings.Repeat("text", 5); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, f := range []string{"f", "two"} {
		old, err := os.Stat(filepath.Join(p, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"d/" + f, "d/" + f + ".more"} {
			if st, err := os.Stat(filepath.Join(p, name)); err != nil || !os.SameFile(st, old) {
				t.Errorf("committed: %s is not %s: %v", name, f, err)
			}
		}
	}
}

// TestTimesOfLinkedDirectories: a link to a project's file changes no time of the directory that the file lies in. What
// others write there at the same time does.
func TestTimesOfLinkedDirectories(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	tree := []string{"e/"}
	for i := range 40 {
		tree = append(tree, fmt.Sprintf("d/%d: text", i), fmt.Sprintf("busy/%d: text", i))
	}
	dir := place(t, tree...)
	p := filepath.Join(dir, "p")
	old := time.Unix(1000, 5)
	for _, name := range []string{"d", "busy"} {
		if err := os.Chtimes(filepath.Join(p, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	r := runner(t, shown(t, nsrun.Config{Project: p, After: nsrun.Commit}))
	got := output(t, r, nsrun.Request{Command: `cp "$(command -v ln)" /tmp/git; ln d/0 e/0; /tmp/git d/1 e/1; cp -al d f; stat -c %.9Y d f
ln -f -t e busy/* & i=0; while [ $i -lt 40 ]; do echo $i >busy/$i.new; i=$((i+1)); done; wait; test busy/39 -ef e/39 && [ $(stat -c %Y busy) != 1000 ] || echo hidden
ln d/2 d/other; [ $(stat -c %Y d) != 1000 ] || echo unchanged; touch -d @1000.000000005 d; ls -A d busy | grep nsrun; true`})
	if want := strings.Repeat("1000.000000005\n", 2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"d", "f"} {
		if st, err := os.Stat(filepath.Join(p, name)); err != nil || !st.ModTime().Equal(old) {
			t.Errorf("committed: %s: %v, %v", name, st, err)
		}
	}
}

// TestLinkedTwice: new links to two old names of one file are one file, too, unless the copy was written or replaced
// meanwhile.
func TestLinkedTwice(t *testing.T) {
	need(t, features.Overlay) // a copy has two files, where the project has two names of one
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a1: text", "b1: text", "c1: text", "d/")
	p := filepath.Join(dir, "p")
	for _, f := range []string{"a", "b", "c"} {
		if err := os.Link(filepath.Join(p, f+"1"), filepath.Join(p, f+"2")); err != nil {
			t.Fatal(err)
		}
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
	got := output(t, r, nsrun.Request{Command: `for f in a b c; do ln $f"1" d/$f"1" || exit; done
echo new >d/b1; echo own >x; mv x d/c1; for f in a b c; do ln $f"2" d/$f"2" || exit; done
rm ?1 ?2; test d/a1 -ef d/a2 && cat d/a2 d/b2 d/c1 d/c2; ls -A . d | grep nsrun; true`})
	if want := "texttextown\ntext"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a, err := os.Lstat(filepath.Join(p, "d/a1"))
	b, err2 := os.Lstat(filepath.Join(p, "d/a2"))
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		t.Errorf("committed: %v, %v", err, err2)
	}
}

// TestMovedNames: old names of one file that are moved stay names of one file, unless the first one was written to or
// replaced meanwhile.
func TestMovedNames(t *testing.T) {
	need(t, features.Overlay) // a copy has two files, where the project has two names of one
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a1: text", "b1: text", "c1: text", "d/", "d/a2: other")
	p := filepath.Join(dir, "p")
	for _, f := range []string{"a", "b", "c"} {
		for _, n := range []string{"2", "3"} {
			if err := os.Link(filepath.Join(p, f+"1"), filepath.Join(p, f+n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
	got := output(t, r, nsrun.Request{Command: `exec 3<a2; for f in a b c; do mv $f"1" d || exit; done
echo new >d/b1; echo own >x; mv x d/c1; for f in a b c; do mv -f $f"2" d && ln $f"3" d/$f"3" && mv $f"3" d/$f"4" || exit; done
for n in 2 3 4; do test d/a1 -ef d/a$n || echo d/a$n is another file; done; cat d/a2 d/b1 d/b2 d/c1 d/c2 <&3
ls; ls -A . d | grep nsrun; stat -c %h d/a1; true`})
	if want := "textnew\ntextown\ntextd\n4\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	first, err := os.Lstat(filepath.Join(p, "d/a1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"2", "3", "4"} {
		if st, err := os.Lstat(filepath.Join(p, "d/a"+n)); err != nil || !os.SameFile(st, first) {
			t.Errorf("committed: d/a%s is another file: %v", n, err)
		}
	}
}

// TestRenamedLinks: names of one old file that lie in directories which are renamed stay names of one file, unless the
// first one was written to meanwhile.
func TestRenamedLinks(t *testing.T) {
	need(t, features.Overlay) // a copy has two files, where the project has two names of one
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "d/s/", "d/a1: text\n", "d/b1: text\n", "e/", "f/", "g/")
	p := filepath.Join(dir, "p")
	for from, to := range map[string]string{"d/a1": "d/s/a2", "d/b1": "d/b2"} {
		if err := os.Link(filepath.Join(p, from), filepath.Join(p, to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"f/b3", "g/b4", "b5", "b6"} {
		if err := os.Link(filepath.Join(p, "d/b1"), filepath.Join(p, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
	got := output(t, r, nsrun.Request{Command: `mv d n && mv f e/f && mv b5 e && mv n e/m && echo new >>e/m/a1 || exit
for b in m/b1 f/b3 b5; do test e/$b -ef e/m/b2 || echo e/$b is another file; done; echo new >>e/b5; mv g e/g; mv b6 e
cat e/m/s/a2 e/m/b2 e/g/b4 e/b6; stat -c %h e/m/a1 e/m/s/a2 e/m/b2; ls -A . e | grep nsrun; true`})
	if want := "text\nnew\ntext\nnew\ntext\ntext\n2\n2\n4\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for a, b := range map[string]string{"e/m/a1": "e/m/s/a2", "e/m/b1": "e/m/b2", "e/f/b3": "e/m/b2", "e/b5": "e/m/b2", "e/g/b4": "e/b6"} {
		one, err := os.Lstat(filepath.Join(p, a))
		two, err2 := os.Lstat(filepath.Join(p, b))
		if err != nil || err2 != nil || !os.SameFile(one, two) {
			t.Errorf("committed: %s and %s: %v, %v", a, b, err, err2)
		}
	}
}

// TestLinkedOthers: links are right for symbolic links and FIFOs, and if ln(1) would follow a link (-L) but there is
// none.
func TestLinkedOthers(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: text", "s => f", "d/")
	p := filepath.Join(dir, "p")
	if err := unix.Mkfifo(filepath.Join(p, "q"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, AllowSpecial: true})
	got := output(t, r, nsrun.Request{Command: `ln -P s d/s && ln q d/q && ln -L f d/f && ln -L s d/l || exit
for name in s q f; do test $(stat -c %i $name) = $(stat -c %i d/$name) || echo $name and d/$name differ; done
cp f d/f 2>/dev/null && echo f is copied; cat f d/f d/l; readlink d/s; ls -A . d | grep nsrun; true`})
	if want := "texttexttextf\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, name := range []string{"s", "q", "f"} {
		a, err := os.Lstat(filepath.Join(p, name))
		b, err2 := os.Lstat(filepath.Join(p, "d", name))
		if err != nil || err2 != nil || !os.SameFile(a, b) {
			t.Errorf("committed: %s: %v, %v", name, err, err2)
		}
	}
}

// TestKilledRename: if a process that renames a directory is killed, the whole tree is under one of the two names, and
// nothing else is left.
func TestKilledRename(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const files = 400
	var tree []string
	for i := range files {
		tree = append(tree, fmt.Sprintf("c/s%d/f%d", i%7, i))
	}
	dir := place(t, tree...)
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard}))
	where := map[string]int{}
	for i := range testenv.Rounds(12, 200) {
		// It is killed at another moment each time.
		got := output(t, r, moving(t, fmt.Sprintf(`"$0" 0 c d & v=$!
for i in $(seq %d); do ls c >/dev/null 2>&1; done
kill -9 $v; wait $v 2>/dev/null
while ls -A | grep -q nsrun-moving; do :; done
find . -type f -printf '%%f\n' | sort -u | wc -l; ls -A`, i)))
		lines := strings.Fields(strings.ReplaceAll(got, "c 0 <nil>\n", ""))
		if len(lines) < 2 || lines[0] != strconv.Itoa(files) {
			t.Fatalf("round %d: %s", i, got)
		}
		where[strings.Join(lines[1:], " ")]++
	}
	t.Log(where)
}

// TestRenamesAtOnce: several processes rename directories at once, and each directory is somewhere.
func TestRenamesAtOnce(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	var tree []string
	want := ""
	for i := range 8 {
		want += fmt.Sprintf("d%d.5\n", i)
		for j := range 20 {
			tree = append(tree, fmt.Sprintf("d%d.0/s/f%d", i, j))
		}
	}
	dir := place(t, tree...)
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p")}))
	got := output(t, r, moving(t, `for i in 0 1 2 3 4 5 6 7; do
	"$0" 0 d$i.0 d$i.1 0 d$i.1 d$i.2 0 d$i.2 d$i.3 0 d$i.3 d$i.4 0 d$i.4 d$i.5 >/dev/null &
done; wait; ls -A; find . -type f | wc -l`))
	if want += "160"; strings.TrimSpace(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// insideMany renames many directories, each on a thread of its own, and prints how many of them fail.
func insideMany(args []string) int {
	n, _ := strconv.Atoi(args[0])
	var failed atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if unix.Rename(fmt.Sprint("d", i), fmt.Sprint("e", i)) != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(failed.Load())
	return 0
}

// TestManyRenames: a command whose threads all rename directories does not take this process's descriptors.
func TestManyRenames(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const n = 200
	var tree []string
	for i := range n {
		tree = append(tree, fmt.Sprintf("d%d/f", i))
	}
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(place(t, tree...), "p"), After: nsrun.Discard}))
	open := func() int {
		list, _ := os.ReadDir("/proc/self/fd")
		return len(list)
	}
	output(t, r, insideRequest(t, "many", "0")) // what is made once
	before, most := open(), 0
	var got string
	done := make(chan struct{})
	go func() {
		defer close(done)
		got = output(t, r, insideRequest(t, "many", strconv.Itoa(n)))
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
			most = max(most, open())
		}
	}
	if got = strings.TrimSpace(got); got != "0" || most > before+n {
		t.Errorf("%s renames failed, and %d descriptors were open, before that %d", got, most, before)
	}
	t.Log(before, most)
}

// TestSwappedRenames: while somebody swaps directories and links, a rename touches nothing that the command could not
// touch itself.
func TestSwappedRenames(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a/x/f", "b/x/f", "q/")
	testenv.Tree(t, dir, "outside/x/f")
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p")}))
	before := testenv.Listing(t, filepath.Join(dir, "outside"))
	output(t, r, moving(t, fmt.Sprintf(`(while :; do ln -sfn %s q/l; rm -rf q/l; mkdir q/l q/l/x; rm -rf q/l; done) & v=$!
for i in $(seq 60); do "$0" 0 a/x q/l/y 0 q/l/x a/z 2 q/l/x b/x 0 q/l/y a/x 0 b/x a/x; done; kill $v`, filepath.Join(dir, "outside"))))
	if d := testenv.Difference(t, filepath.Join(dir, "outside"), before); d != "" {
		t.Errorf("outside: %s", d)
	}
}

// insideRestricted gives up the right to make and remove directories by Landlock, if its first argument says so. Then
// it does what insideMove does.
func insideRestricted(args []string) int {
	runtime.LockOSThread()
	if args[0] == "restricted" {
		const handled = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR
		attr := uint64(handled)
		rules, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if e == 0 {
			_, _, e = unix.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
		}
		if e == 0 {
			_, _, e = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
		}
		if e != 0 {
			fmt.Println("landlock:", e)
			return 1
		}
	}
	return insideMove(args[1:])
}

// TestRenamesOfRestricted: a process that has given up the right to rename directories cannot have nsrun rename them.
func TestRenamesOfRestricted(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); e != 0 {
		testenv.Skip(t, string(features.LandlockTCP), "this kernel has no Landlock: "+e.Error())
	}
	for name, c := range map[string]nsrun.Config{"alone": {}, "why": {Why: true}, "network": {Net: netpolicy.MustParse("192.0.2.1:443"), Enforcer: nsrun.BrokerEnforcer}} {
		for _, who := range []string{"restricted", "the control"} {
			t.Run(name+", "+who, func(t *testing.T) {
				needFor(t, c)
				dir := place(t, "a/f")
				c.Project = filepath.Join(dir, "p")
				got := output(t, runner(t, shown(t, c)), insideRequest(t, "restricted", who, "0", "a", "b"))
				if done := strings.HasPrefix(got, "a 0 <nil>\n"); done != (who != "restricted") || strings.Contains(got, "landlock:") {
					t.Error(got)
				}
			})
		}
	}
}
