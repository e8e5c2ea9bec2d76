//go:build linux

package project

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLostDatabase: files of a new database get no ids that copies of other files have in their names. The control is
// the copy of another file with the same name and day.
func TestLostDatabase(t *testing.T) {
	p := newPlace(t)
	p.tree("a/f: a", "b/f: b")
	p.scan()
	p.record(Execution{}, p.change(Modified, "a/f"))
	p.must(p.Close())
	p.must(errors.Join(os.Remove(filepath.Join(p.o.Dir, dbName)), os.RemoveAll(p.at("a"))))
	p.Registry = Open(p.o)
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "b/f"))
	if len(rec.Backups) != 1 || !rec.Backups[0].Made || p.read(rec.Backups[0].Copy) != "b" {
		t.Errorf("%+v", rec.Backups)
	}
}

// TestLongPath: a file whose path no system call takes and no database keeps costs other files nothing.
func TestLongPath(t *testing.T) {
	p := newPlace(t)
	p.tree("f: old")
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "f"), p.change(Added, strings.Repeat("d/", 20_000)+"f"))
	if len(rec.Backups) != 1 || !rec.Backups[0].Made {
		t.Errorf("%+v", rec)
	}
	if n := len(p.executions(Filter{})); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestClockBack: what was noted while the clock was ahead does not hold until that time comes.
func TestClockBack(t *testing.T) {
	p := newPlace(t)
	p.tree("f: old")
	p.scan()
	p.record(Execution{Session: "s"}, p.change(Modified, "f"))
	p.after(1000 * time.Hour)
	p.must(p.Committed(ctx, "s", true, []Change{p.change(Modified, "f")}))
	p.after(-1000 * time.Hour)
	p.must(os.Chmod(p.at("f"), 0o600))
	p.must(p.Undone(ctx, "s", true, []Change{p.change(Modified, "f")}))
	if e := p.executions(Filter{}); e[0].State != StateKept {
		t.Errorf("state %q", e[0].State)
	}
	if f := p.file("f"); f.Mode != 0o600 {
		t.Errorf("mode %v", f.Mode)
	}
	p.after(1000 * time.Hour)
	p.scan()
	p.after(-1000 * time.Hour)
	p.must(os.Chmod(p.at("f"), 0o640))
	p.scan()
	if f := p.file("f"); f.Mode != 0o640 {
		t.Errorf("mode %v after a scan", f.Mode)
	}
}

// TestLongNames: a line of the journal has no more names than it is read with, however JSON writes them.
func TestLongNames(t *testing.T) {
	name := text("/" + strings.Repeat("\x01", 250))
	encoded := len(encode(name))
	if most := namesMost / len(name) * encoded; most > maxLine*3/4 {
		t.Errorf("names of a line have up to %d bytes of %d", most, maxLine)
	}
	files := make([]fileOp, registerPart+1)
	for length, want := range map[int]int{10: registerPart, namesMost / 2: 2, namesMost/2 + 1: 1, 2 * namesMost: 1} {
		if n := fitting(files, func(fileOp) int { return length }); n != want {
			t.Errorf("names of %d bytes: %d in a line, want %d", length, n, want)
		}
	}
	if n := fitting(files[:0], func(fileOp) int { return 1 }); n != 0 {
		t.Errorf("%d of none", n)
	}
}
