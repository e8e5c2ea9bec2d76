//go:build linux

package fanotify

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
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

// text is an event as the tables have it.
func text(ev Event) string {
	s := ev.Op.String() + " " + ev.Path
	if ev.Op == Renamed {
		s = ev.Op.String() + " " + ev.From + " => " + ev.Path
	}
	if ev.Dir {
		s += "/"
	}
	return s
}

func open(t testing.TB, e Engine, roots ...string) *Watcher {
	t.Helper()
	w, err := New(Options{Roots: roots, Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	if w.Engine() != e {
		t.Fatalf("engine %v, want %v", w.Engine(), e)
	}
	return w
}

// rest stops the watcher and returns what it tells until its end.
func rest(t testing.TB, w *Watcher) (list []string, errs []error) {
	t.Helper()
	w.Stop()
	for ev, err := range w.Events() {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ev.Time.IsZero() {
			t.Errorf("%s has no time", text(ev))
		}
		list = append(list, text(ev))
	}
	return list, errs
}

// do runs a script in a directory.
func do(t testing.TB, dir, script string) {
	t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// TestEvents: what one script does has these events, in this order. What the engines do
// not tell alike stands behind "fanotify:" or "inotify:".
func TestEvents(t *testing.T) {
	for _, test := range []struct {
		name   string
		before []string
		script string
		want   []string
	}{
		{"file", nil, "echo a >f", []string{"created f", "written f"}},
		{"written again", []string{"f: x"}, "echo a >>f", []string{"written f"}},
		{"read", []string{"f: x"}, "cat f", nil},
		{"removed", []string{"f"}, "rm f", []string{"removed f"}},
		{"directory", nil, "mkdir d", []string{"created d/"}},
		{"directory removed", []string{"d/"}, "rmdir d", []string{"removed d/"}},
		{"link", nil, "ln -s x l", []string{"created l"}},
		{"mode", []string{"f", "d/"}, "chmod 600 f; chmod 700 d", []string{"attributes f", "attributes d/"}},
		{"the root's mode", nil, "chmod 700 .", []string{"attributes ./"}},
		{"renamed", []string{"f: x"}, "mv f g", []string{"renamed f => g"}},
		{"renamed over", []string{"f: x", "g: y"}, "mv f g", []string{"renamed f => g"}},
		{"renamed to a directory", []string{"f: x", "a/b/"}, "mv f a/b/g", []string{"renamed f => a/b/g"}},
		{"out", []string{"f: x", "d/g: x", "d/e/h"}, "mv f ../f; mv d ../d; echo x >../d/new; echo x >../d/e/new", []string{"removed f", "removed d/"}},
		{"in", nil, "mkdir -p ../o/p; echo x >../o/p/f; mv ../o in; echo y >>in/p/f",
			[]string{"created in/", "created in/p/", "created in/p/f"}},
		{"out and in", []string{"d/e/f: x"}, "mv d ../d; mv ../d g; echo y >>g/e/f",
			[]string{"removed d/", "created g/", "created g/e/", "created g/e/f", "written g/e/f"}},
		{"outside", nil, "mkdir ../q; echo a >../q/f; mv ../q/f ../q/g; rm -r ../q", nil},
		{"a link is not followed", []string{"l => ../elsewhere"}, "mkdir ../elsewhere; echo a >../elsewhere/f; echo b >l/g", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			engines(t, func(t *testing.T, e Engine) {
				dir := filepath.Join(testenv.Dir(t), "root")
				testenv.Tree(t, dir, append([]string{"./"}, test.before...)...)
				w := open(t, e, dir)
				do(t, dir, test.script)
				got, errs := rest(t, w)
				if len(errs) > 0 {
					t.Errorf("errors: %v", errs)
				}
				if e == Inotify {
					// That something may have come and gone in a new directory unseen.
					got = slices.DeleteFunc(got, func(line string) bool {
						dir, ok := strings.CutPrefix(line, "written ")
						return ok && strings.HasSuffix(dir, "/") && slices.Contains(got, "created "+dir)
					})
				}
				// What is found by listing and what was queued may come in another order.
				want := slices.Sorted(slices.Values(test.want))
				if slices.Sort(got); !slices.Equal(compact(got), want) {
					t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
				}
			})
		})
	}
}

// compact leaves out what comes twice: a file may be told to be written as often as it is.
func compact(list []string) []string { return slices.Compact(list) }

// TestMoves: directories change places, and each keeps what is in it. What happens in one
// right then comes from its list with Inotify.
func TestMoves(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         []string // of Fanotify
	}{
		{"once", "mv a c; echo a >>c/d/f", []string{"renamed a => c/", "written c/d/f"}},
		{"again", "mv a b2; mv b2/d c; echo a >>c/f; mv c a; echo b >a/g",
			[]string{"renamed a => b2/", "renamed b2/d => c/", "written c/f", "renamed c => a/", "created a/g", "written a/g"}},
		{"into each other", "mv b a/b; mv a/b/sub s; mv a s/a; echo x >>s/a/d/f; echo y >>s/two",
			[]string{"renamed a => s/a/", "written s/a/d/f", "written s/two"}},
		{"exchanged", "EXCHANGE; echo x >>b/d/f; echo x >>a/sub/two",
			[]string{"renamed a => b/", "created a/", "created a/sub/", "created a/sub/two", "written b/d/f", "written a/sub/two"}},
		{"out, and made again", "mv a ../a; mkdir a; echo x >a/new", []string{"removed a/", "created a/", "created a/new"}},
		{"file out, and made again", "mv a/one ../one; echo x >a/one", []string{"removed a/one", "created a/one"}},
		{"out, and another in", "mkdir ../o; echo x >../o/p; mv b ../b; mv ../o b; mv b/p ../p; mv ../b/sub b/p",
			[]string{"removed b/", "created b/", "removed b/p", "created b/p/", "created b/p/two"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			engines(t, func(t *testing.T, e Engine) {
				dir := filepath.Join(testenv.Dir(t), "root")
				testenv.Tree(t, dir, "a/d/f", "a/one", "b/sub/two")
				w := open(t, e, dir)
				m := &model{}
				for _, p := range everything(t, dir) {
					m.apply(Event{Op: Created, Path: p})
				}
				script, ok := strings.CutPrefix(test.script, "EXCHANGE; ")
				if ok {
					if err := unix.Renameat2(unix.AT_FDCWD, dir+"/a", unix.AT_FDCWD, dir+"/b", unix.RENAME_EXCHANGE); err != nil {
						t.Fatal(err)
					}
				}
				do(t, dir, script)
				w.Stop()
				var got []string
				for ev, err := range w.Events() {
					if err != nil {
						t.Error(err)
					}
					m.apply(ev)
					got = append(got, text(ev))
				}
				for _, want := range test.want {
					if e == Fanotify && !slices.Contains(got, want) {
						t.Errorf("no %q in %q", want, got)
					}
				}
				m.compare(t, dir)
			})
		})
	}
}

// TestAgain: what is removed and made again under the same name is watched.
func TestAgain(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		w := open(t, e, dir)
		m := &model{}
		done := collect(t, w, m)
		for i := range 200 {
			do := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			d := filepath.Join(dir, "d")
			do(os.RemoveAll(d))
			do(os.MkdirAll(filepath.Join(d, "e"), 0o755))
			do(os.WriteFile(filepath.Join(d, "e", fmt.Sprint(i)), nil, 0o644))
			do(os.Rename(filepath.Join(d, "e"), filepath.Join(d, "g")))
			do(os.WriteFile(filepath.Join(d, "g", fmt.Sprint("late", i)), nil, 0o644))
		}
		w.Stop()
		done()
		m.compare(t, dir)
	})
}

// TestOutAndIn: a directory that was moved out of the roots, and is moved in again a little later, is watched.
func TestOutAndIn(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := filepath.Join(testenv.Dir(t), "root")
		testenv.Tree(t, dir, "d/e/f", "g/")
		w := open(t, e, dir)
		late := time.AfterFunc(testenv.Patience, w.Close)
		defer late.Stop()
		next, stop := iter.Pull2(w.Events())
		defer stop()
		for _, step := range []struct{ script, until string }{
			{"mv d ../d; : >g/1", "created g/1"},
			{"mv ../d g/in", "created g/in/e/f"},
			{": >g/in/new", "created g/in/new"},
			{"mv g/in ../d; mv ../d g/in; : >g/2", "created g/2"},
			{": >g/in/e/new", "created g/in/e/new"},
			{": >g/in/newer", "created g/in/newer"},
		} {
			do(t, dir, step.script)
			for got := ""; got != step.until; {
				ev, err, ok := next()
				if err != nil || !ok {
					t.Fatalf("after %s: no %q, but %v", step.script, step.until, err)
				}
				got = text(ev)
			}
		}
	})
}

// TestBatch: after the last event, files that came and went while nobody read exist, or do not exist, as the events
// say.
func TestBatch(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		w := open(t, e, dir)
		// The kernel puts the first and the last into one event.
		do(t, dir, `: >a; mv a b; mv b a; rm a
			: >c; rm c; : >c
			mkdir d; mv d e; mv e d; rmdir d
			mkdir f; rmdir f; mkdir f; : >f/x`)
		m := &model{}
		w.Stop()
		for ev, err := range w.Events() {
			if err != nil {
				t.Fatal(err)
			}
			m.apply(ev)
		}
		m.compare(t, dir)
	})
}

// hostile are names that somebody chose with care.
var hostile = []string{"new\nline", "esc\x1b[31m", "\xff\xfe", "a\" ← \"b", " ← ", "-rf", "tab\t", strings.Repeat("x", 255), "…", "\\n"}

func TestHostileNames(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		w := open(t, e, dir)
		m := &model{}
		done := collect(t, w, m)
		for i, name := range hostile {
			d := filepath.Join(dir, fmt.Sprintf("d%d", i))
			if err := os.MkdirAll(filepath.Join(d, name), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, other := range hostile {
				p := filepath.Join(d, name, other)
				if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			// Renaming takes the path of a text.
			if err := os.Rename(filepath.Join(d, name, hostile[0]), filepath.Join(d, hostile[(i+3)%len(hostile)]+"y"[:min(1, 255-len(hostile[(i+3)%len(hostile)]))])); err != nil {
				t.Fatal(err)
			}
		}
		w.Stop()
		done()
		m.compare(t, dir)
	})
}

// age waits until the clock that file systems stamp files by is so much later that what was
// made before counts as old.
func age(t *testing.T) {
	t.Helper()
	probe := filepath.Join(testenv.Dir(t), "probe")
	var first time.Time
	testenv.Eventually(t, "a later time", func() bool {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = fi.ModTime()
		}
		return fi.ModTime().Sub(first) > 2*slack
	})
}

// TestOverflow: more happens than the queue holds while nobody reads.
func TestOverflow(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		limit := queueLimit(t, e)
		if limit > 1<<17 {
			testenv.Skip(t, "small-queue", "the kernel's queue is too long for the test")
		}
		dir := memory(t, e)
		testenv.Tree(t, dir, "old", "gone", "keep: x", "d/gone", "d/e/keep", "n/")
		old := time.Now().Add(-time.Hour)
		for _, name := range []string{"old", "gone", "keep", "d/e/keep"} {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		age(t) // the ctimes are to be old too
		w := open(t, e, dir)
		m := &model{}
		// inotify has what fsnotify holds besides.
		create(t, filepath.Join(dir, "n"), limit+8192)
		// Here the queue is full.
		for i := range 100 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		do(t, dir, "rm gone d/gone; echo x >>d/e/keep; mv old new; mkdir -p last/a/b; : >last/a/b/c")
		w.Stop()
		var overflows int
		dirsWritten := map[string]bool{}
		for ev, err := range w.Events() {
			if err != nil {
				if !errors.Is(err, ErrOverflow) {
					t.Error(err)
				}
				overflows++
				continue
			}
			if ev.Op == Written && ev.Dir {
				dirsWritten[ev.Path] = true
			}
			if ev.Path != "." {
				m.apply(ev)
			}
		}
		if overflows == 0 {
			t.Fatal("the queue was never full")
		}
		told := map[string]bool{}
		m.paths("", told)
		for _, p := range everything(t, dir) {
			if !told[p] && p != "keep" && p != "d/e" {
				t.Errorf("%q was never told", p)
			}
		}
		if !dirsWritten["."] || !dirsWritten["d"] {
			t.Errorf("names were removed from . and d, but not both were reported: %v", dirsWritten)
		}
		// Fanotify did not know d, and it may have had another name.
		if told["keep"] || e == Inotify && told["d/e"] {
			t.Error("a file that did not change was reported")
		}
	})
}

// TestOverflowMoves: after an overflow, files that were reported before have other names. The queue then holds events
// from before and after the lost ones.
func TestOverflowMoves(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		overflowMoves(t, e, 100)
		if e == Fanotify {
			overflowMoves(t, e, 0) // the last rename comes by the same read as the loss
		}
	})
}

func overflowMoves(t *testing.T, e Engine, between int) {
	limit := queueLimit(t, e)
	if limit > 1<<17 {
		testenv.Skip(t, "small-queue", "the kernel's queue is too long for the test")
	}
	dir := memory(t, e)
	testenv.Tree(t, dir, "n/")
	w := open(t, e, dir)
	m := &model{}
	do(t, dir, "mkdir -p d/e g; : >d/e/f; : >g/h; : >ready")
	take := func(until func(Event) bool) {
		for ev, err := range w.Events() {
			if errors.Is(err, ErrOverflow) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			m.apply(ev)
			if until(ev) {
				return
			}
		}
	}
	// All of that is known.
	left := map[string]bool{"d/e/f": true, "g/h": true, "ready": true}
	take(func(ev Event) bool { delete(left, ev.Path); return len(left) == 0 })
	age(t) // it did not change when the queue was last empty
	do(t, dir, ": >again")
	take(func(ev Event) bool { return ev.Path == "again" })
	create(t, filepath.Join(dir, "n"), limit+8192)
	do(t, dir, "mv d/e x; mv g d/; mkdir x/new; : >x/new/file; : >d/g/new")
	// The queue has room for some events again, and then is full.
	n := 0
	take(func(Event) bool { n++; return n == 100 })
	do(t, dir, "mv x/new x/newer; mv d dd; : >x/newer/file2; rm again; : >again")
	create(t, filepath.Join(dir, "n"), between)
	do(t, dir, "mv x dd/x; : >dd/x/last")
	w.Stop()
	take(func(Event) bool { return false })
	m.compare(t, dir)
}

// TestUnlimited: the queue holds more than it usually does.
func TestUnlimited(t *testing.T) {
	needMarks(t)
	dir := memory(t, Fanotify)
	w, err := New(Options{Roots: []string{dir}, Engine: Fanotify, Unlimited: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	n := min(queueLimit(t, Fanotify), 1<<16) + 100
	create(t, dir, n)
	got, errs := rest(t, w)
	if len(errs) > 0 || len(slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "created ") })) != n {
		t.Errorf("%d events of %d, errors: %v", len(got), n, errs)
	}
}

// create makes n files in a directory, or opens them once more for writing.
func create(t testing.TB, dir string, n int) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range n {
		fd, err := unix.Openat(int(d.Fd()), strconv.Itoa(i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func queueLimit(t testing.TB, e Engine) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/fs/" + e.String() + "/max_queued_events")
	if err == nil {
		_, err = fmt.Sscan(string(b), &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRootGone: what is at the path of a root is not the root any more.
func TestRootGone(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		top := testenv.Dir(t)
		dir := filepath.Join(top, "r")
		testenv.Tree(t, dir, "./")
		w := open(t, e, dir)
		// Renamed, and something else put there: that is not watched.
		do(t, top, "mv r s; mkdir r; : >r/other; : >s/mine")
		var seen []string
		var gone bool
		for ev, err := range w.Events() {
			if errors.Is(err, ErrRootGone) {
				gone = true
			} else if err != nil {
				t.Fatal(err)
			} else {
				seen = append(seen, text(ev))
			}
			if gone && slices.Contains(seen, "created mine") {
				break
			}
		}
		if !gone || !slices.Contains(seen, "created mine") || slices.Contains(seen, "created other") {
			t.Errorf("renamed: %v, %q", gone, seen)
		}
		// Removed: the end, without Stop.
		do(t, top, "rm -r s")
		gone = false
		for _, err := range w.Events() {
			gone = gone || errors.Is(err, ErrRootGone)
		}
		if !gone {
			t.Error("the removal of the root was not reported")
		}
	})
}

// TestSwap: a directory is exchanged for a link to the outside while watches are made. A
// watch must never be one of the outside.
func TestSwap(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		top := testenv.Dir(t)
		testenv.Tree(t, top, "out/secret", "r/d/f", "r/l => ../out")
		w := open(t, e, filepath.Join(top, "r"))
		testenv.Swap(t, testenv.Pair{A: filepath.Join(top, "r/d"), B: filepath.Join(top, "r/l")})
		m := make(chan bool)
		go func() {
			defer close(m)
			for ev, err := range w.Events() {
				if err == nil && strings.Contains(ev.Path, "secret") {
					t.Errorf("an event outside the root was reported: %s", text(ev))
				}
			}
		}()
		var in []string
		end := time.Now().Add(testenv.RaceTime)
		for i := 0; i < testenv.Rounds(100, 500) || len(in) == 0 && time.Now().Before(end); i++ {
			if err := os.WriteFile(filepath.Join(top, fmt.Sprintf("out/secret%d", i%7)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			// The control: by its path it is reached now and then.
			_ = os.Mkdir(filepath.Join(top, "r/l", fmt.Sprint("x", i)), 0o755)
			in, _ = filepath.Glob(filepath.Join(top, "out/x*"))
		}
		if len(in) == 0 {
			t.Error("the exchange never fooled the control")
		}
		w.Stop()
		<-m
	})
}

func TestSeveralRoots(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		top := testenv.Dir(t)
		testenv.Tree(t, top, "a/d/f", "b/", "c/")
		a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
		w := open(t, e, a, b)
		do(t, top, "mv a/d b/e; echo x >>b/e/f; : >a/g; : >c/h")
		var got []string
		w.Stop()
		for ev, err := range w.Events() {
			if err != nil {
				t.Error(err)
			}
			got = append(got, filepath.Base(ev.Root)+": "+text(ev))
		}
		for _, want := range []string{"a: created g", "a: removed d/", "b: created e/", "b: created e/f"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	})
}

func TestSweep(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "mapped: 123", "old: 1")
		old := time.Now().Add(-time.Hour)
		for _, name := range []string{"mapped", "old"} {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		age(t) // the ctimes are to be old too
		f, err := os.OpenFile(filepath.Join(dir, "mapped"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := New(Options{Roots: []string{dir}, Engine: e, Sweep: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		b, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b)
		b[0] = 'x'
		if err := unix.Msync(b, unix.MS_SYNC); err != nil {
			t.Fatal(err)
		}
		got, errs := rest(t, w)
		if want := []string{"written mapped"}; !slices.Equal(got, want) || len(errs) > 0 {
			t.Errorf("got %q %v, want %q", got, errs, want)
		}
	})
}

func TestOptions(t *testing.T) {
	top := testenv.Dir(t)
	testenv.Tree(t, top, "a/b/", "f", "dangling => nothing", "l => a")
	at := func(names ...string) (list []string) {
		for _, n := range names {
			list = append(list, filepath.Join(top, n))
		}
		return list
	}
	for _, test := range []struct {
		roots []string
		want  error
	}{
		{nil, unix.EINVAL},
		{at("missing"), fs.ErrNotExist},
		{at("f"), unix.ENOTDIR},
		{at("dangling"), fs.ErrNotExist},
		{at("a", "a"), unix.EINVAL},
		{at("a", "a/b"), unix.EINVAL},
		{at("a/b", "a"), unix.EINVAL},
		{at("l", "a"), unix.EINVAL},
		{at("l"), nil},
	} {
		for _, e := range []Engine{Auto, Inotify} {
			w, err := New(Options{Roots: test.roots, Engine: e})
			if !errors.Is(err, test.want) {
				t.Errorf("%q: %v, want %v", test.roots, err, test.want)
			}
			if err == nil {
				w.Close()
				continue
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Op == "" {
				t.Errorf("%q: %v is no *Error", test.roots, err)
			}
		}
	}
	if _, err := New(Options{Roots: at("a"), Engine: Inotify + 1}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an unknown engine: %v", err)
	}
	if !testenv.Root() {
		_, err := New(Options{Roots: at("a"), Engine: Fanotify})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("fanotify as a user: %v", err)
		}
	}
}

// TestEnds: the ways in which an iteration ends.
func TestEnds(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		w := open(t, e, dir)
		do(t, dir, ": >a; : >b; : >c")
		// Broken off, and begun again.
		var got []string
		for i := 0; i < 3; i++ {
			for ev, err := range w.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Op == Created {
					got = append(got, ev.Path)
					break
				}
			}
		}
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("got %q", got)
		}
		// Two at once.
		do(t, dir, ": >d")
		for range w.Events() {
			for _, err := range w.Events() {
				if !errors.Is(err, ErrBusy) {
					t.Errorf("a second one: %v", err)
				}
			}
			break
		}
		// Closed in the middle, by itself and by somebody else.
		do(t, dir, ": >e; : >g")
		for range w.Events() {
			w.Close()
		}
		for _, err := range w.Events() {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("closed: %v", err)
			}
		}
		w.Stop()
		w.Close()
		w = open(t, e, dir)
		done := collect(t, w, nil)
		w.Close()
		done()
	})
}

// TestTooMany: there are more directories than may be watched. An event says so, and what happened in them is reported
// at the end.
func TestTooMany(t *testing.T) {
	dir := testenv.Dir(t)
	w := open(t, Inotify, dir)
	w.eng.(*watches).most = 5
	for i := range 20 {
		testenv.Tree(t, dir, fmt.Sprintf("d%d/e/f", i))
	}
	m := &model{}
	w.Stop()
	var errs []error
	for ev, err := range w.Events() {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m.apply(ev)
	}
	m.compare(t, dir)
	if len(errs) != 1 || !errors.Is(errs[0], unix.EMFILE) || !strings.Contains(errs[0].Error(), "raise ulimit -n") {
		t.Errorf("errors: %v", errs)
	}
}

// TestClosedDirectory: one that we may not read does not keep us from the others.
func TestClosedDirectory(t *testing.T) {
	testenv.NeedUser(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "closed/f", "open/")
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	w := open(t, Inotify, dir)
	do(t, dir, ": >open/g; chmod 700 closed; : >closed/g")
	got, errs := rest(t, w)
	for _, want := range []string{"created open/g", "attributes closed/", "created closed/g"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if len(errs) != 1 || !errors.Is(errs[0], fs.ErrPermission) {
		t.Errorf("errors: %v", errs)
	}
}
