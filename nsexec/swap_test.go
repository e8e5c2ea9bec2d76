//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Races: somebody who owns a directory exchanges two names in it, as fast as he
// can, while sandboxes start that use them.

func isDir(name string) bool {
	fi, err := os.Lstat(name)
	return err == nil && fi.IsDir()
}

// starts starts runs sandboxes, and then more as long as more returns true.
// attempt makes the i-th, fine looks at what it said.
func starts(t *testing.T, runs int, attempt func(i int) *nsexec.Cmd, fine func(i int, out string) error, more func(started, refused int) bool) (started, refused int) {
	t.Helper()
	end := time.Now().Add(testenv.RaceTime)
	why := make(map[string]int)
	for i := 0; i < runs || more(started, refused) && time.Now().Before(end); i++ {
		c := attempt(i)
		out, err := c.CombinedOutput()
		if e, ok := errors.AsType[*nsexec.Error](err); ok {
			refused++
			why[string(e.Op)+": "+e.Err.Error()]++
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.Mounts, err, out)
		}
		started++
		if err := fine(i, string(out)); err != nil {
			t.Fatalf("start %d: %v: %v", i, c.Mounts[len(c.Mounts)-1], err)
		}
	}
	t.Logf("%d started, %d refused %v", started, refused, why)
	return started, refused
}

// race is starts where some have to be as they should be, and some refused.
func race(t *testing.T, runs int, attempt func(i int) *nsexec.Cmd, fine func(i int, out string) error) {
	t.Helper()
	oneSided := func(started, refused int) bool { return started == 0 || refused == 0 }
	if oneSided(starts(t, runs, attempt, fine, oneSided)) {
		t.Error("the exchange never hit the right moment")
	}
}

// rounds is n with NSRUN_LONG, usually a fifth of it: these races go on in any case until something
// was in the way.
func rounds(n int) int {
	if testenv.Long() {
		return n
	}
	return n / 5
}

const showMounts = "cat /proc/self/mountinfo"

// mountLines are the mounts that a sandbox sees, in words that are the same in
// every sandbox with that plan.
func mountLines(t testing.TB, mountinfo string) (list []string) {
	t.Helper()
	infos, err := mounts.ParseMountinfo([]byte(mountinfo))
	if err != nil {
		t.Fatalf("%v: %s", err, mountinfo)
	}
	for _, in := range infos {
		list = append(list, fmt.Sprintf("%s (%s of a %s, flags %x)", in.Target, in.Root, in.FSType, uint64(in.Flags)))
	}
	return list
}

// added compares the mounts of a sandbox with those of a sandbox without the last step of the Plan, and returns the new
// ones. Any other difference is an error.
func added(before, after []string) (list []string, err error) {
	before = slices.Clone(before)
	for _, line := range after {
		if i := slices.Index(before, line); i >= 0 {
			before = slices.Delete(before, i, i+1)
		} else {
			list = append(list, line)
		}
	}
	if len(before) > 0 {
		return list, fmt.Errorf("removed or changed: %s; new: %s", before, list)
	}
	return list, nil
}

// isPin reports whether a line of mountLines is of a directory on itself, by either name.
func isPin(p testenv.Pair, where, what string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(what, "("), " of ")
	same := strings.NewReplacer("/"+filepath.Base(p.B), "/"+filepath.Base(p.A))
	return strings.HasSuffix(same.Replace(where), same.Replace(root))
}

// sweep tries every kind of mount at a target whose owner exchanges names, on
// both roots. Of what is mounted nothing may be anywhere but at the targets of the
// pairs and below them, and its flags are those that were asked for.
//
// Each combination is tried in one of the two ways by root, and in the other one by a user;
// with NSRUN_LONG, three times in all four.
func sweep(t *testing.T, classic bool, roots []mounts.Plan, pairs []testenv.Pair, kinds func(target string, i int) []mounts.Mount) {
	t.Helper()
	runs := len(roots) * len(pairs) * len(kinds("", 0))
	step, first := 1, 0
	if testenv.Long() {
		runs *= 3
	} else {
		runs, step = (runs+1)/2, 2
		if classic != testenv.Root() {
			first = 1
		}
	}
	before := make([][]string, len(roots))
	for i, plan := range roots {
		before[i] = mountLines(t, output(t, in(classic, plan, showMounts)))
	}
	testenv.Swap(t, pairs...)
	pick := func(i int) (root int, p testenv.Pair, m mounts.Mount) {
		i = i*step + first
		p = pairs[i%len(pairs)]
		k := kinds(p.A, i)
		i /= len(pairs)
		return i / len(k) % len(roots), p, k[i%len(k)]
	}
	moved := 0
	oneSided := func(started, refused int) bool { return started == 0 || refused == 0 || moved == 0 }
	if oneSided(starts(t, runs, func(i int) *nsexec.Cmd {
		root, _, m := pick(i)
		return in(classic, append(slices.Clone(roots[root]), m), showMounts)
	}, func(i int, out string) error {
		root, p, m := pick(i)
		list, err := added(before[root], mountLines(t, out))
		if err != nil {
			return err
		}
		here := 0
		// Renamed with the directory, it may go by the other name by now.
		names := []string{m.Target, p.B + strings.TrimPrefix(m.Target, p.A)}
		for _, line := range list {
			where, what, _ := strings.Cut(line, " ")
			switch i := slices.Index(names, where); {
			case i >= 0:
				here++
				moved += i
				var flags uint64
				_, err := fmt.Sscanf(what[strings.LastIndex(what, " ")+1:], "%x)", &flags)
				want := mounts.FlagNoSuid
				if m.Kind != mounts.KindDev {
					want |= mounts.FlagNoDev
				}
				if m.ReadOnly {
					want |= mounts.FlagReadOnly
				}
				if mask := want | mounts.FlagReadOnly; err != nil || mounts.MountFlags(flags)&mask != want {
					return fmt.Errorf("wrong flags: %s, %v", line, err)
				}
			case strings.HasPrefix(where, names[0]+"/") || strings.HasPrefix(where, names[1]+"/"):
			case isPin(p, where, what) && (strings.HasPrefix(names[0], where+"/") || strings.HasPrefix(names[1], where+"/")):
			default:
				return fmt.Errorf("a mount elsewhere: %s", line)
			}
		}
		want := 1
		switch m.Kind {
		case mounts.KindDir, mounts.KindFile, mounts.KindSymlink, mounts.KindChmod:
			want = 0
		}
		if here != want {
			return fmt.Errorf("%d mounts at the target: %s", here, list)
		}
		// What it needs was made on the attacker's directory.
		for try := 0; !exists(names[0]) && !exists(names[1]); try++ {
			if try == 100 { // the names may be exchanged between two looks
				return fmt.Errorf("nothing is at %s", names)
			}
		}
		return nil
	}, oneSided)) {
		t.Errorf("the exchange never hit the right moment, or never after a mount: %d", moved)
	}
	t.Logf("%d were exchanged after the mount", moved)
}

// TestSwappedLeaf: of the last component of a target one name is a directory, one
// a link. Whatever is to be mounted there is mounted on the directory, with its
// flags, or not at all. (CVE-2024-42472, CVE-2021-30465, CVE-2024-45310 are of this
// kind.)
func TestSwappedLeaf(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		ws, src, outside := filepath.Join(dir, "ws"), filepath.Join(dir, "src"), filepath.Join(dir, "outside")
		testenv.Tree(t, dir, "outside/marker: x", "src/f: source")
		var pairs []testenv.Pair
		// The links lead to a directory that is writable in the sandbox too, to ones
		// that are not, to nothing, and to what is a mount there itself.
		for i, text := range []string{"../../outside", "/etc", ".", "..", "/mnt", "/.", "none"} {
			p := testenv.Pair{A: filepath.Join(ws, strconv.Itoa(i), "target"), B: filepath.Join(ws, strconv.Itoa(i), "other")}
			testenv.Tree(t, ws, strconv.Itoa(i)+"/target/", strconv.Itoa(i)+"/other => "+text)
			pairs = append(pairs, p)
		}
		testenv.Unchanged(t, outside)
		testenv.Unchanged(t, src)
		roots := []mounts.Plan{
			base(mounts.Bind(dir, dir), mounts.Bind(ws, ws)),
			system(mounts.Proc("/proc"), mounts.Tmpfs("/mnt"), mounts.Dir("/etc"), mounts.Bind(dir, dir), mounts.Bind(ws, ws)),
		}
		sweep(t, classic, roots, pairs, func(a string, _ int) []mounts.Mount {
			return []mounts.Mount{mounts.ROBind(src, a), mounts.Bind(src, a), mounts.Tmpfs(a), mounts.Dev(a), mounts.Proc(a), mounts.Tmpfs(a).RO(), mounts.TmpOverlay(a, src), mounts.ROOverlay(a, src, "/usr")}
		})
		control := filepath.Join(outside, "control")
		testenv.Fooled(t, func() bool { return isDir(pairs[0].A) }, func() bool {
			return os.WriteFile(filepath.Join(pairs[0].A, "control"), nil, 0o644) == nil && os.Remove(control) == nil
		})
	})
}

// TestSwappedFile: one name is a file. The other is a link to a file outside of the attacker's directory, a FIFO, or a
// directory. Either the file is written or nothing is, and no open waits.
func TestSwappedFile(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		ws, src, outside := filepath.Join(dir, "ws"), filepath.Join(dir, "src"), filepath.Join(dir, "outside")
		testenv.Tree(t, dir, "outside/marker: x", "src/f: source")
		var pairs []testenv.Pair
		for i, text := range []string{"../../outside/marker", "/proc/self/root" + outside + "/marker", "/proc/self/fd/0", "fifo", "dir"} {
			d := filepath.Join(ws, strconv.Itoa(i))
			testenv.Tree(t, d, "target: x", "dir/")
			p := testenv.Pair{A: filepath.Join(d, "target"), B: filepath.Join(d, text)}
			var err error
			switch text {
			case "fifo":
				err = unix.Mkfifo(p.B, 0o666)
			case "dir":
			default:
				p.B = filepath.Join(d, "other")
				err = os.Symlink(text, p.B)
			}
			if err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, p)
		}
		testenv.Unchanged(t, outside)
		testenv.Unchanged(t, src)
		roots := []mounts.Plan{
			base(mounts.Bind(dir, dir), mounts.Bind(ws, ws)),
			system(mounts.Proc("/proc"), mounts.Tmpfs("/mnt"), mounts.Bind(dir, dir), mounts.Bind(ws, ws)),
		}
		sweep(t, classic, roots, pairs, func(a string, _ int) []mounts.Mount {
			return []mounts.Mount{mounts.ROBind(filepath.Join(src, "f"), a), mounts.Data(a, []byte("data")), mounts.File(a, []byte("data")), mounts.Data(a, []byte("data")).RO(), mounts.Symlink("text", a)}
		})
		testenv.Fooled(t, func() bool { fi, err := os.Lstat(pairs[0].A); return err == nil && fi.Mode().IsRegular() }, func() bool {
			f, err := os.OpenFile(pairs[0].A, os.O_WRONLY, 0)
			if err != nil {
				return false
			}
			defer f.Close()
			fi, err1 := f.Stat()
			marker, err2 := os.Lstat(filepath.Join(outside, "marker"))
			return err1 == nil && err2 == nil && os.SameFile(fi, marker)
		})
	})
}

// TestSwappedParent: a directory in the parents of a target is exchanged with a
// link. What is missing is made in the workspace, or nowhere.
func TestSwappedParent(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		ws, src, outside := filepath.Join(dir, "ws"), filepath.Join(dir, "src"), filepath.Join(dir, "outside")
		testenv.Tree(t, dir, "outside/marker: x", "src/f: source")
		var pairs []testenv.Pair
		for i, text := range []string{"../../outside", outside, "/proc/self/root" + outside, strings.Repeat("../", 20) + outside, "/proc/self/cwd", "/"} {
			p := testenv.Pair{A: filepath.Join(ws, strconv.Itoa(i), "target"), B: filepath.Join(ws, strconv.Itoa(i), "other")}
			testenv.Tree(t, ws, strconv.Itoa(i)+"/target/")
			if err := os.Symlink(text, p.B); err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, p)
		}
		if err := os.Chmod(outside, 0o777); err != nil {
			t.Fatal(err)
		}
		testenv.Unchanged(t, outside)
		testenv.Unchanged(t, src)
		roots := []mounts.Plan{
			base(mounts.Bind(ws, ws)),
			system(mounts.Proc("/proc"), mounts.ROBind(outside, outside), mounts.Bind(ws, ws), mounts.Remount("/")),
			system(mounts.Proc("/proc"), mounts.Bind(ws, ws), mounts.Remount("/")),
		}
		sweep(t, classic, roots, pairs, func(a string, i int) []mounts.Mount {
			missing := fmt.Sprint(a, "/new", i/100, "/x")
			return []mounts.Mount{
				mounts.Tmpfs(missing + "/t"), mounts.Dir(missing + "/d"), mounts.File(missing+"/file", []byte("text")), mounts.Data(missing+"/data", []byte("text")), mounts.TmpOverlay(missing+"/o", src), mounts.Symlink("text", missing+"/l"),
				mounts.ROBind(src, missing+"/s"), mounts.Bind("/etc/passwd", missing+"/f"), mounts.Chmod(0o1777, a), mounts.File(a+"/marker", nil),
			}
		})
		control := filepath.Join(outside, "control")
		testenv.Fooled(t, func() bool { return isDir(pairs[0].A) }, func() bool {
			return os.MkdirAll(filepath.Join(pairs[0].A, "control"), 0o755) == nil && os.Remove(control) == nil
		})
	})
}

// TestSwappedRemount: the target of a read-only step is exchanged with a link to another mount. If the sandbox starts,
// the target is read-only, and nothing else is.
func TestSwappedRemount(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/target/", "ws/other => .", "src/f: source")
		ws, src := filepath.Join(dir, "ws"), filepath.Join(dir, "src")
		p := testenv.Pair{A: filepath.Join(ws, "target"), B: filepath.Join(ws, "other")}
		testenv.Unchanged(t, src)
		testenv.Swap(t, p)
		script := "for f in " + p.A + " " + p.B + "; do [ ! -e $f/f ] || echo changed >> $f/f; done 2>/dev/null; cat /proc/self/mountinfo"
		race(t, rounds(150), func(int) *nsexec.Cmd {
			return in(classic, base(mounts.Bind(ws, ws), mounts.Bind(src, p.A), mounts.Remount(p.A)), script)
		}, func(_ int, out string) error {
			for _, line := range mountLines(t, out) {
				if (strings.HasPrefix(line, p.A+" ") || strings.HasPrefix(line, p.B+" ")) && !strings.Contains(line, "7)") {
					return fmt.Errorf("not read-only: %s", line)
				}
			}
			return nil
		})
	})
}

// TestCoveredRemount: a later step covers the target of a read-only step. The hidden mount must not become read-only
// instead.
func TestCoveredRemount(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "src/f")
		src := filepath.Join(dir, "src")
		for _, c := range []struct {
			plan mounts.Plan
			want string // "": refused
		}{
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Remount("/mnt/a/x")}, "no"},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Remount("/mnt//a/./x/")}, "no"},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Tmpfs("/mnt/a/x"), mounts.Remount("/mnt/a/x")}, "no"},
			{mounts.Plan{mounts.Tmpfs("/mnt/a/x"), mounts.Bind(src, "/mnt/a/x"), mounts.Remount("/mnt/a/x")}, "no"},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Tmpfs("/mnt/a"), mounts.Remount("/mnt/a/x")}, ""},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Tmpfs("/mnt/a"), mounts.Dir("/mnt/a/x"), mounts.Remount("/mnt/a/x")}, ""},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Tmpfs("/mnt/a"), mounts.Tmpfs("/mnt/a/x"), mounts.Remount("/mnt/a/x")}, "no"},
			{mounts.Plan{mounts.Bind(src, "/mnt/a/x"), mounts.Tmpfs("/mnt/a"), mounts.Symlink("/mnt", "/mnt/a/x"), mounts.Remount("/mnt/a/x")}, ""},
		} {
			for _, root := range []mounts.Plan{base(), system(mounts.Proc("/proc"), mounts.Dev("/dev"), mounts.Tmpfs("/mnt"))} {
				out, err := in(classic, append(root, c.plan...), try+"try touch /mnt/a/x/new").Output()
				if _, refused := errors.AsType[*nsexec.Error](err); refused != (c.want == "") || strings.TrimSpace(string(out)) != c.want {
					t.Errorf("%v: %v, it can be written to: %s", c.plan, err, out)
				}
			}
		}
	})
}

// TestSwappedSource: the source of a bind is exchanged with a link out of the
// attacker's directory. A source is followed, once: the sandbox has one or the other,
// as read-only as was said.
func TestSwappedSource(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/source/f: inside\n", "ws/other => ../outside", "outside/f: outside\n", "outside/only")
		ws := filepath.Join(dir, "ws")
		p := testenv.Pair{A: filepath.Join(ws, "source"), B: filepath.Join(ws, "other")}
		testenv.Unchanged(t, filepath.Join(dir, "outside"))
		testenv.Swap(t, p)
		seen := make(map[string]int)
		starts(t, rounds(200), func(i int) *nsexec.Cmd {
			root := base()
			if i%2 == 1 {
				root = system(mounts.Proc("/proc"), mounts.Dev("/dev"))
			}
			return in(classic, append(root, mounts.ROBind(p.A, "/mnt/s")), // without another process
				"read -r l < /mnt/s/f; echo $l; [ -e /mnt/s/only ] && echo only; for f in f new; do echo changed 2>/dev/null > /mnt/s/$f && echo yes || echo no; done")
		}, func(_ int, out string) error {
			seen[out]++
			if out != "inside\nno\nno\n" && out != "outside\nonly\nno\nno\n" {
				return fmt.Errorf("said %q", out)
			}
			return nil
		}, func(int, int) bool { return len(seen) < 2 })
		if len(seen) < 2 {
			t.Errorf("the exchange never hit the right moment: %v", seen)
		}
		control := filepath.Join(dir, "outside/f")
		testenv.Fooled(t, func() bool { return isDir(p.A) }, func() bool {
			f, err := os.Open(filepath.Join(p.A, "f"))
			if err != nil {
				return false
			}
			defer f.Close()
			fi, err1 := f.Stat()
			other, err2 := os.Lstat(control)
			return err1 == nil && err2 == nil && os.SameFile(fi, other)
		})
	})
}

// TestSwappedSubmounts: what is mounted in the source of a read-only bind is
// read-only too, while directories with different mounts in them are exchanged. The
// classic form knows only those that were listed before: SECURITY.md has it.
func TestSwappedSubmounts(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		few, many := filepath.Join(dir, "ws/few"), filepath.Join(dir, "ws/many")
		hostTmpfs(t, filepath.Join(few, "m"), 0)
		hostTmpfs(t, filepath.Join(few, "x/n"), 0)
		for _, name := range []string{"m", "n", "x/m", "x/n"} {
			hostTmpfs(t, filepath.Join(many, name), 0)
		}
		// Where the cleanup of the mounts will look for them.
		t.Cleanup(func() {
			if !exists(many, "x/m") {
				if err := unix.Renameat2(unix.AT_FDCWD, few, unix.AT_FDCWD, many, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
				}
			}
		})
		testenv.Swap(t, testenv.Pair{A: few, B: many})
		seen := make(map[int]int)
		starts(t, rounds(60), func(i int) *nsexec.Cmd {
			root := base()
			if i%2 == 1 {
				root = system(mounts.Proc("/proc"), mounts.Dev("/dev"))
			}
			return in(classic, append(root, mounts.ROBind(few, "/mnt/source")), showMounts)
		}, func(_ int, out string) error {
			n := 0
			for _, line := range mountLines(t, out) {
				if strings.HasPrefix(line, "/mnt/source") {
					n++
					if !strings.HasSuffix(line, "7)") && (!classic || n == 1) {
						return fmt.Errorf("not read-only: %s", line)
					}
				}
			}
			seen[n]++
			return nil
		}, func(int, int) bool { return seen[3] == 0 || seen[5] == 0 })
		if seen[3] == 0 || seen[5] == 0 {
			t.Errorf("the exchange never hit the right moment: %v", seen)
		}
		// Control: outside, what is mounted there can be written to.
		if err := os.WriteFile(filepath.Join(many, "m/f"), nil, 0o644); err != nil {
			t.Error(err)
		}
	})
}

// TestSwappedLayers: lower directories of an overlay are exchanged with links. They
// are followed, once, and never written to.
func TestSwappedLayers(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/low/f: inside\n", "ws/other => ../outside", "outside/f: outside\n", "outside/only", "second/", "up/", "work/")
		ws, up, work := filepath.Join(dir, "ws"), filepath.Join(dir, "up"), filepath.Join(dir, "work")
		p := testenv.Pair{A: filepath.Join(ws, "low"), B: filepath.Join(ws, "other")}
		testenv.Unchanged(t, filepath.Join(dir, "outside"))
		testenv.Unchanged(t, filepath.Join(dir, "second"))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(work, "work"), 0o700) })
		testenv.Swap(t, p)
		seen := make(map[string]int)
		starts(t, rounds(50), func(i int) *nsexec.Cmd {
			o := mounts.Overlay("/mnt/o", up, work, p.A)
			switch i % 3 {
			case 1:
				o = mounts.TmpOverlay("/mnt/o", p.A)
			case 2:
				o = mounts.ROOverlay("/mnt/o", p.A, filepath.Join(dir, "second"))
			}
			return in(classic, base(o), "cd /mnt/o; cat f; ls; echo changed 2>/dev/null > f; rm -f f only 2>/dev/null; rm -rf "+p.A+"/* 2>/dev/null; true")
		}, func(i int, out string) error {
			_ = os.RemoveAll(up)
			testenv.Tree(t, dir, "up/")
			_ = os.Chmod(filepath.Join(work, "work"), 0o700)
			seen[out]++
			if out != "inside\nf\n" && out != "outside\nf\nonly\n" {
				return fmt.Errorf("said %q", out)
			}
			return nil
		}, func(int, int) bool { return len(seen) < 2 })
		if len(seen) < 2 {
			t.Errorf("the exchange never hit the right moment: %v", seen)
		}
	})
}
