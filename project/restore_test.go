//go:build linux

package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

func (p *place) versions(path string) []Version {
	p.t.Helper()
	list, err := p.Versions(p.at(path))
	p.must(err)
	return list
}

func TestRestore(t *testing.T) {
	p := newPlace(t)
	p.tree("d/a: one")
	p.must(os.Chmod(p.at("d/a"), 0o750))
	p.scan()
	p.record(Execution{}, p.change(Modified, "d/a"))
	p.tree("d/a: two")
	v, err := Choose(p.versions("d/a"), "", "")
	p.must(err)
	out, err := p.Restore(ctx, v, "")
	p.must(err)
	fi, err := os.Lstat(p.at("d/a"))
	p.must(err)
	if p.read(p.at("d/a")) != "one" || fi.Mode() != 0o750 {
		t.Errorf("%q, %v", p.read(p.at("d/a")), fi.Mode())
	}
	if p.read(out.Saved) != "two" {
		t.Error("the replaced version is lost")
	}
	// And back again.
	v, err = Choose(p.versions("d/a"), "", out.Execution)
	p.must(err)
	_, err = p.Restore(ctx, v, "")
	p.must(err)
	if p.read(p.at("d/a")) != "two" {
		t.Errorf("%q", p.read(p.at("d/a")))
	}
	if names, _ := os.ReadDir(p.at("d")); len(names) != 1 {
		t.Errorf("there is %v", names)
	}
}

// restorerEnv has a helper restore a file, once.
const restorerEnv = "NSRUN_TEST_PROJECT_RESTORER"

// restorer restores the oldest version of a file, while its system calls count. at has the registry's two directories
// and the file.
func restorer(at string) int {
	dirs := strings.Split(at, ":")
	r := Open(Options{Dir: dirs[0], Cache: dirs[1]})
	defer r.Close()
	list, err := r.Versions(dirs[2])
	if err == nil && len(list) > 0 {
		if err = strike.Begin(); err == nil {
			_, err = r.Restore(context.Background(), list[len(list)-1], "")
			strike.End()
		}
	}
	if err != nil || len(list) == 0 {
		fmt.Fprintln(os.Stderr, err, list)
		return 1
	}
	return 0
}

// restoreStruck has a helper restore a file, and strikes it. It returns what the helper said.
func restoreStruck(t *testing.T, p *place, path string, plan strike.Plan) (strike.Result, string) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), restorerEnv+"="+strings.Join([]string{p.o.Dir, p.o.Cache, p.at(path)}, ":"))
	var said bytes.Buffer
	c.Stderr = &said
	r, err := strike.Run(c, plan)
	if errors.Is(err, strike.ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	p.must(err)
	return r, said.String()
}

// TestRestoreAgain lets a restoration fail, or kills it, when it has saved the present version. That one is then the
// newest, but what is restored the next time is the one that was wanted.
func TestRestoreAgain(t *testing.T) {
	ready := func() *place {
		p := newPlace(t)
		p.tree("d/a: one")
		p.record(Execution{}, p.change(Modified, "d/a"))
		p.tree("d/a: two")
		p.must(p.Close())
		return p
	}
	var calls []strike.Call
	restoreStruck(t, ready(), "d/a", strike.Plan{Trace: func(_ int, c strike.Call) { calls = append(calls, c) }})
	last := slices.IndexFunc(calls, func(c strike.Call) bool {
		return strings.HasPrefix(c.Name, "rename") && strings.HasPrefix(filepath.Base(c.Files[0]), restorePrefix)
	})
	if last < 0 {
		t.Fatalf("nothing is renamed: %v", calls)
	}
	for _, do := range []strike.Action{strike.Kill, strike.Fail} {
		p := ready()
		if r, _ := restoreStruck(t, p, "d/a", strike.Plan{At: last + 1, Do: do}); r.Call.Name != calls[last].Name || r.ExitCode == 0 {
			t.Fatalf("%v: %+v", do, r)
		}
		p.reopen()
		list := p.versions("d/a")
		if newest := p.read(list[0].Copy); newest != "two" {
			t.Fatalf("%v: nothing was saved: %q", do, newest)
		}
		v, err := Choose(list, "", "")
		p.must(err)
		if got := p.read(v.Copy); got != "one" {
			t.Errorf("%v: %q would be restored the next time", do, got)
		}
	}
}

// TestRestoreStruck kills a process that restores a file at each of its system calls. The file is the old or the new
// one, and nothing is left beside it before the new one gets a name.
func TestRestoreStruck(t *testing.T) {
	var whole []string // the calls
	var calls []strike.Call
	for k := 0; k == 0 || k <= len(whole); k++ {
		p := newPlace(t)
		p.tree("d/a: one")
		p.scan()
		p.record(Execution{}, p.change(Modified, "d/a"))
		p.tree("d/a: two")
		p.must(p.Close())
		plan := strike.Plan{At: k, Do: strike.Kill}
		if k == 0 {
			plan = strike.Plan{Trace: func(_ int, c strike.Call) { whole, calls = append(whole, c.Name), append(calls, c) }}
		}
		r, said := restoreStruck(t, p, "d/a", plan)
		if k == 0 && r.ExitCode != 0 {
			t.Fatalf("%+v: %s", r, said)
		}
		named := slices.Index(whole, "linkat") + 1
		if named == 0 {
			fd, err := unix.Open(p.at("d"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err != nil {
				testenv.Skip(t, "O_TMPFILE", "this file system has no files without names")
			}
			_ = unix.Close(fd)
			t.Fatalf("the copy had a name from the beginning: %q", whole)
		}
		if k == 0 {
			flushedFirst(t, p, calls)
		}
		if text := p.read(p.at("d/a")); text != "two" && (text != "one" || k > 0 && k <= named) {
			t.Errorf("killed at call %d, %s: the file is %q", k, r.Call, text)
		}
		if names, _ := os.ReadDir(p.at("d")); len(names) != 1 && k <= named {
			t.Errorf("killed at call %d, %s: there is %v", k, r.Call, names)
		}
		p.reopen()
		p.versions("d/a")
		if names, _ := os.ReadDir(p.at("d")); len(names) != 1 {
			t.Errorf("killed at call %d, %s: the next process left %v", k, r.Call, names)
		}
		if notes, _ := filepath.Glob(filepath.Join(p.o.Dir, restoringPrefix+"*")); len(notes) > 0 {
			t.Errorf("killed at call %d, %s: the next process left %v", k, r.Call, notes)
		}
		if text := p.read(p.at("d/a")); text != "two" && text != "one" {
			t.Errorf("killed at call %d, %s: then the file is %q", k, r.Call, text)
		}
	}
}

// TestRestoreDirectoriesStruck lets each system call of a restoration fail that also makes directories, and kills it
// there. The file is restored, or none of the directories is left, at the latest when the registry is opened again. A
// restoration that returns an error says so if the file is there.
func TestRestoreDirectoriesStruck(t *testing.T) {
	ready := func() *place {
		p := newPlace(t)
		p.tree("d/e/f/a: one", "d/other: o")
		p.scan()
		p.record(Execution{}, p.change(Deleted, "d/e/f/a"))
		p.must(os.RemoveAll(p.at("d/e")))
		p.must(p.Close())
		return p
	}
	var calls []strike.Call
	if r, said := restoreStruck(t, ready(), "d/e/f/a", strike.Plan{Trace: func(_ int, c strike.Call) { calls = append(calls, c) }}); r.ExitCode != 0 {
		t.Fatalf("%+v: %s", r, said)
	}
	noted := slices.IndexFunc(calls, func(c strike.Call) bool { return c.Name == "symlinkat" }) + 1
	failed, restored := 0, 0
	for k := range calls {
		for i, do := range []strike.Action{strike.Fail, strike.Kill, strike.KillAfter} {
			if !testenv.Turn(k + i) {
				continue
			}
			p := ready()
			r, said := restoreStruck(t, p, "d/e/f/a", strike.Plan{At: k + 1, Do: do})
			if do != strike.Fail {
				p.reopen()
				p.Recover()
			}
			_, missing := os.Lstat(p.at("d/e"))
			_, err := os.Lstat(p.at("d/e/f/a"))
			names, _ := os.ReadDir(p.at("d/e/f"))
			switch {
			case len(names) > 1, err == nil && p.read(p.at("d/e/f/a")) != "one":
				t.Errorf("%v at %d, %s: there is %v", do, k+1, r.Call, names)
			case err != nil && missing == nil && (do == strike.Fail || k >= noted):
				t.Errorf("%v at %d, %s: a directory is left: %s", do, k+1, r.Call, said)
			case do == strike.Fail && (err == nil) != (r.ExitCode == 0 || strings.Contains(said, "the file was restored")):
				t.Errorf("%v at %d, %s: %s, and it said: %d %s", do, k+1, r.Call, names, r.ExitCode, said)
			}
			if do == strike.Fail && r.ExitCode != 0 {
				if failed++; err == nil {
					restored++
				}
			}
		}
	}
	if failed == 0 || restored == 0 {
		t.Errorf("%d failed, %d of them when the file was there", failed, restored)
	}
}

// flushedFirst fails if the file is replaced before everything is on disk: the new file, after it got a name, because
// some file systems flush nothing of a file without one; the copy of the old file with its names; and the registry,
// which knows that copy.
func flushedFirst(t *testing.T, p *place, calls []strike.Call) {
	t.Helper()
	named := slices.IndexFunc(calls, func(c strike.Call) bool { return c.Name == "linkat" })
	moved := slices.IndexFunc(calls, func(c strike.Call) bool {
		return c.Name == "renameat2" && strings.HasPrefix(c.Files[0], p.at("d")+"/")
	})
	if named < 0 || moved < named {
		t.Fatalf("%v", calls)
	}
	temp := filepath.Join(p.o.Cache, tempName)
	flushed := func(from int, dir string, below int) {
		t.Helper()
		if !slices.ContainsFunc(calls[from:moved], func(c strike.Call) bool {
			if c.Name != "fsync" && c.Name != "fdatasync" {
				return false
			}
			rel, err := filepath.Rel(dir, c.Files[0])
			return err == nil && filepath.IsLocal(rel) && (rel != ".") == (below > 0) && strings.Count(rel, "/") == max(below-1, 0)
		}) {
			t.Errorf("nothing %d below %s was flushed before the file was replaced: %v", below, dir, calls[:moved])
		}
	}
	flushed(named, p.at("d"), 1)
	for below := range 3 { // the directory of all copies, that of the restoration, and the copy
		flushed(0, temp, below)
	}
	flushed(0, p.o.Dir, 1)
}

func TestRestoreDeleted(t *testing.T) {
	p := newPlace(t)
	p.tree("d/e/a: one")
	p.scan()
	dir := Change{Kind: Deleted, Root: p.root, Path: "d", Mode: os.ModeDir | 0o755, OldMode: os.ModeDir | 0o755}
	p.record(Execution{Session: "s"}, dir, p.change(Deleted, "d/e/a"))
	p.must(os.RemoveAll(p.at("d")))
	p.must(p.Committed(ctx, "s", true, []Change{dir}))
	if f := p.file("d/e/a"); !f.Deleted {
		t.Errorf("a deleted directory does not mark its files as deleted: %+v", f)
	}
	all := p.versions("d/e/a")
	v, err := Choose(all, all[0].Date, "") // of the day on which it was changed, which may be over
	p.must(err)
	_, err = p.Restore(ctx, v, "")
	p.must(err)
	if f := p.file("d/e/a"); f.Deleted || p.read(p.at("d/e/a")) != "one" {
		t.Errorf("%+v", f)
	}
	if _, err := Choose(p.versions("d/e/a"), "20-01-01", ""); !errors.Is(err, ErrNoVersion) {
		t.Errorf("%v", err)
	}
}

// TestRestoreWithoutBackup: the version before the first change of a file that nobody had
// registered.
func TestRestoreWithoutBackup(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.record(Execution{}, p.change(Modified, "a"))
	p.tree("a: two")
	v, err := Choose(p.versions("a"), "", "")
	p.must(err)
	_, err = p.Restore(ctx, v, "")
	p.must(err)
	if !v.Before || p.read(p.at("a")) != "one" {
		t.Errorf("%+v", v)
	}
}

// TestRestoreKeepsWhatIsThereWhateverItsSize: no limit may lose it.
func TestRestoreKeepsWhatIsThereWhateverItsSize(t *testing.T) {
	p := newPlace(t)
	p.o.BeforeFile, p.o.BeforeAll, p.o.BackupFile = 3, 3, 3
	p.reopen()
	p.tree("a: one")
	p.scan()
	p.record(Execution{}, p.change(Modified, "a"))
	p.tree("a: much more")
	out, err := p.Restore(ctx, p.versions("a")[0], "")
	p.must(err)
	if p.read(out.Saved) != "much more" {
		t.Errorf("%+v", out)
	}
}

// TestRestoreThroughLinks: a parent is a link, or becomes one.
func TestRestoreThroughLinks(t *testing.T) {
	p := newPlace(t)
	p.tree("d/a: one")
	p.scan()
	p.record(Execution{}, p.change(Modified, "d/a"))
	victim := filepath.Join(filepath.Dir(p.root), "victim")
	testenv.Tree(t, victim, "a: theirs")
	testenv.Unchanged(t, victim)
	v := p.versions("d/a")[0]
	p.must(os.Symlink(victim, p.at("link")))
	if _, err := p.Restore(ctx, v, p.at("link/a")); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a link above: %v", err)
	}
	p.must(os.Symlink(filepath.Join(victim, "a"), p.at("file")))
	if _, err := p.Restore(ctx, v, p.at("file")); err == nil {
		t.Error("a link was replaced")
	}
	testenv.Swap(t, testenv.Pair{A: p.at("d"), B: p.at("link")})
	done := 0
	for range 100 {
		if _, err := p.Restore(ctx, v, ""); err == nil {
			done++
		}
	}
	t.Logf("%d of 100", done)
	testenv.Fooled(t, func() bool { fi, err := os.Lstat(p.at("d")); return err == nil && fi.IsDir() }, func() bool {
		return os.WriteFile(p.at("d/x"), nil, 0o600) == nil && os.Remove(filepath.Join(victim, "x")) == nil
	})
}

// TestRestoreDamaged: a backup that is shorter than recorded does not count as one.
func TestRestoreDamaged(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "a"))
	p.must(os.Truncate(rec.Backups[0].Copy, 1))
	p.tree("a: two")
	if _, err := p.Restore(ctx, p.versions("a")[0], ""); !errors.Is(err, ErrDamaged) || p.read(p.at("a")) != "two" {
		t.Errorf("%v", err)
	}
}
