//go:build linux

package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tests named after what the seed asks for (2.6.1 Code Execution Improvements).

var ctx = context.Background()

// "Storage format: {id}-{date YY-MM-DD}-{basename}"
func TestBackupStorageFormat(t *testing.T) {
	p := newPlace(t)
	p.tree("src/main.go: one")
	p.scan()
	before := time.Now()
	rec := p.record(Execution{}, p.change(Modified, "src/main.go"))
	if len(rec.Backups) != 1 {
		t.Fatalf("%+v", rec)
	}
	want := func(day time.Time) string {
		return fmt.Sprintf("%s/edited/%d-%s-main.go", p.o.Cache, p.file("src/main.go").ID, day.Format("06-01-02"))
	}
	b := rec.Backups[0]
	if b.Copy != want(before) && b.Copy != want(time.Now()) || b.Path != p.at("src/main.go") || !b.Made || p.read(b.Copy) != "one" {
		t.Errorf("%+v, want %s", b, want(before))
	}
	fi, err := os.Lstat(b.Copy)
	p.must(err)
	if fi.Mode() != 0o600 {
		t.Errorf("the backup's mode is %v", fi.Mode())
	}
	for _, dir := range []string{p.o.Dir, p.o.Cache, filepath.Dir(b.Copy)} {
		if fi, err := os.Lstat(dir); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, fi.Mode(), err)
		}
	}
	p.must(p.Flush())
	if fi, err := os.Lstat(filepath.Join(p.o.Dir, dbName)); err != nil || fi.Mode() != 0o600 {
		t.Errorf("the database: %v, %v", fi, err)
	}
}

// "Only for files in database (id > 0)": a file that nobody registered is registered by its
// first change, and backed up by the next one.
func TestBackupOnlyForRegisteredFiles(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	rec := p.record(Execution{}, p.change(Modified, "a"))
	if len(rec.Backups) != 0 {
		t.Fatalf("backed up without being registered: %+v", rec)
	}
	if f := p.file("a"); f.ID <= 0 || f.LastApprovedCopyPath != "" {
		t.Errorf("%+v", f)
	}
	e := p.executions(Filter{})[0]
	if p.read(e.Changes[0].Before) != "one" {
		t.Error("no version before it")
	}
	p.tree("a: two")
	if rec = p.record(Execution{}, p.change(Modified, "a")); len(rec.Backups) != 1 || p.read(rec.Backups[0].Copy) != "two" {
		t.Errorf("%+v", rec)
	}
}

// "One backup per file per day (skips if backup exists for today)"
func TestBackupOnePerFilePerDay(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	first := p.record(Execution{}, p.change(Modified, "a"))
	p.tree("a: two")
	second := p.record(Execution{}, p.change(Modified, "a"))
	if first.Backups[0].Copy != second.Backups[0].Copy || second.Backups[0].Made || p.read(second.Backups[0].Copy) != "one" {
		t.Errorf("%+v then %+v", first, second)
	}
	p.after(day)
	third := p.record(Execution{}, p.change(Modified, "a"))
	if third.Backups[0].Copy == first.Backups[0].Copy || p.read(third.Backups[0].Copy) != "two" {
		t.Errorf("the next day: %+v", third)
	}
	if f := p.file("a"); len(f.Backups) != 2 || f.Backups[0].Copy != third.Backups[0].Copy || f.LastApprovedCopyPath != third.Backups[0].Copy {
		t.Errorf("%+v", f)
	}
}

// "Backup path stored in file.last_approved_copy_path"
func TestBackupPathStored(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "a"))
	p.reopen()
	if f := p.file("a"); f.LastApprovedCopyPath != rec.Backups[0].Copy || f.Backups[0].Execution != rec.ID {
		t.Errorf("%+v", f)
	}
}

// "Create backups AFTER execution for files that were actually modified", "copy original
// file (from overlay lower directory)": the content is what original opens, whatever is
// in the project.
func TestBackupComesFromTheLowerSide(t *testing.T) {
	p := newPlace(t)
	p.tree("a: in the project")
	p.scan()
	lower := filepath.Join(filepath.Dir(p.root), "lower")
	p.must(os.WriteFile(lower, []byte("lower"), 0o644))
	rec, err := p.Record(ctx, Execution{}, []Change{p.change(Modified, "a")}, func(Change) (*os.File, error) { return os.Open(lower) })
	p.must(err)
	if got := p.read(rec.Backups[0].Copy); got != "lower" {
		t.Errorf("%q", got)
	}
}

// "For new files: Create new File entry, save to database first (to get id > 0), no backup
// needed, set last_approved_copy_path to empty string"
func TestNewFilesAreRegisteredFirstAndHaveNoBackup(t *testing.T) {
	p := newPlace(t)
	rec := p.record(Execution{}, p.change(Added, "new"))
	if f := p.file("new"); len(rec.Backups) != 0 || f.ID <= 0 || f.LastApprovedCopyPath != "" || f.Deleted {
		t.Errorf("%+v %+v", rec, f)
	}
	if names, err := os.ReadDir(filepath.Join(p.o.Cache, "edited")); len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// "For deleted files: copy original file to backup location; set is_deleted flag; keep File
// record until backup is deleted"
func TestDeletedFilesAreBackedUpAndKept(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	c := p.change(Deleted, "a")
	rec := p.record(Execution{Session: "s"}, c)
	if p.read(rec.Backups[0].Copy) != "one" {
		t.Error("no backup")
	}
	if p.file("a").Deleted {
		t.Error("marked before anything was committed")
	}
	p.must(os.Remove(p.at("a")))
	p.must(p.Committed(ctx, "s", true, []Change{c}))
	if f := p.file("a"); !f.Deleted || f.LastApprovedCopyPath != rec.Backups[0].Copy {
		t.Errorf("%+v", f)
	}
	p.clean()
	p.scan()
	if f := p.file("a"); !f.Deleted {
		t.Errorf("%+v", f)
	}
	p.must(os.Remove(rec.Backups[0].Copy))
	if c := p.clean(); c.Files != 1 {
		t.Errorf("%+v", c)
	}
	if _, err := p.File(p.at("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its backup is gone: %v", err)
	}
}

// "Update file metadata (last_modified, etc.)"
func TestCommittedFilesHaveTheirTime(t *testing.T) {
	p := newPlace(t)
	c := p.change(Added, "a")
	p.record(Execution{Session: "s"}, c)
	if !p.file("a").LastModified.IsZero() {
		t.Error("not committed, and has a time")
	}
	p.tree("a: one")
	when := time.Unix(1_700_000_000, 5)
	p.must(os.Chtimes(p.at("a"), when, when))
	p.must(p.Committed(ctx, "s", true, []Change{c}))
	if f := p.file("a"); !f.LastModified.Equal(when) || f.Mode != 0o644 {
		t.Errorf("%+v", f)
	}
}

// "Temporary file store: temp-files/{execution-id}: pre-change versions of modified files,
// empty files for new files"
func TestTemporaryFileStore(t *testing.T) {
	p := newPlace(t)
	p.tree("m: before", "d: deleted")
	rec := p.record(Execution{}, p.change(Modified, "m"), p.change(Added, "n"), p.change(Deleted, "d"))
	e := p.executions(Filter{ID: rec.ID})[0]
	want := map[string]string{"m": "before", "n": "", "d": "deleted"}
	for _, c := range e.Changes {
		if filepath.Dir(c.Before) != filepath.Join(p.o.Cache, "temp-files", rec.ID) {
			t.Errorf("%s is in %q", c.Path, c.Before)
		}
		if got := p.read(c.Before); got != want[c.Path] {
			t.Errorf("%s: %q", c.Path, got)
		}
		f, err := p.OpenBefore(c)
		p.must(err)
		_ = f.Close()
	}
	if len(e.Changes) != 3 {
		t.Errorf("%+v", e)
	}
}

// "Temporary file store directories may accumulate", "cleaned up: files older than 7 days"
func TestCleanupOfOldBackups(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "a"))
	p.after(6 * day)
	if c := p.clean(); c.Backups+c.Befores+c.Files+c.Executions != 0 {
		t.Fatalf("after six days: %+v", c)
	}
	p.after(2*day + time.Second)
	if c := p.clean(); c.Backups != 1 || c.Befores != 1 || c.Executions != 0 {
		t.Fatalf("after eight days: %+v", c)
	}
	if f := p.file("a"); f.LastApprovedCopyPath != "" || len(f.Backups) != 0 {
		t.Errorf("%+v", f)
	}
	for _, path := range []string{rec.Backups[0].Copy, filepath.Join(p.o.Cache, "temp-files", rec.ID)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Retention is configurable.
func TestRetentionIsConfigurable(t *testing.T) {
	p := newPlace(t)
	p.o.Retention = 30 * day
	p.reopen()
	p.tree("a: one")
	p.scan()
	p.record(Execution{}, p.change(Modified, "a"))
	p.after(20 * day)
	if c := p.clean(); c.Backups != 0 {
		t.Errorf("%+v", c)
	}
	p.after(12 * day)
	if c := p.clean(); c.Backups != 1 {
		t.Errorf("%+v", c)
	}
}

// "Only remove File record if is_deleted == false AND both original file AND backup don't
// exist"
func TestScanForgetsOnlyWhatNobodyCanWantBack(t *testing.T) {
	p := newPlace(t)
	p.tree("gone: x", "backup: x", "deleted: x", "there: x", "dir/gone: x", "dir-b: x")
	p.scan()
	p.record(Execution{}, p.change(Modified, "backup"))
	del := p.change(Deleted, "deleted")
	p.record(Execution{Session: "s"}, del)
	for _, name := range []string{"gone", "backup", "deleted", "dir/gone"} {
		p.must(os.Remove(p.at(name)))
	}
	p.must(p.Committed(ctx, "s", true, []Change{del}))
	p.scan()
	var got []string
	for f, err := range p.Files(p.root) {
		p.must(err)
		got = append(got, filepath.Base(f.Path))
	}
	if s := strings.Join(got, " "); s != "backup deleted dir-b there" {
		t.Errorf("left: %s", s)
	}
	// The backup of what a scan finds gone is removed: then the record goes with the
	// next scan.
	p.must(os.RemoveAll(filepath.Join(p.o.Cache, "edited")))
	p.scan()
	if _, err := p.File(p.at("backup")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("backup: %v", err)
	}
	if f := p.file("deleted"); !f.Deleted {
		t.Errorf("after the scan, the record is not marked as deleted: %+v", f)
	}
	if c := p.clean(); c.Files != 1 {
		t.Errorf("%+v", c)
	}
}

// "Log changes for audit purposes"
func TestAuditLog(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	began := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	e := Execution{
		Session: "20260101T000000Z-abcdefgh", Command: []string{"make", "te\xffst"}, Dir: p.root, Roots: []string{p.root},
		Began: began, Ended: began.Add(time.Second), ExitCode: 2, Signal: "SIGTERM", TimedOut: true,
		Denied: []string{"write /etc/passwd"}, Network: "none", Backend: "native", Engine: "overlay", State: StateKept,
	}
	rec := p.record(e, p.change(Modified, "a"), p.change(Added, "b\xfe\n"))
	p.reopen()
	list := p.executions(Filter{})
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	got := list[0]
	e.ID, e.Changes = rec.ID, got.Changes
	if fmt.Sprintf("%+v", got) != strings.ReplaceAll(fmt.Sprintf("%+v", e), " m=", " m=") && !(got.Began.Equal(e.Began) && got.Ended.Equal(e.Ended)) {
		t.Errorf("\n got %+v\nwant %+v", got, e)
	}
	if got.Command[1] != "te\xffst" || got.Signal != "SIGTERM" || !got.TimedOut || got.ExitCode != 2 || got.Denied[0] != "write /etc/passwd" ||
		got.Network != "none" || got.Backend != "native" || got.Engine != "overlay" || got.State != StateKept || got.Session != e.Session {
		t.Errorf("%+v", got)
	}
	if len(got.Changes) != 2 || got.Changes[0].Kind != Modified || got.Changes[1].Path != "b\xfe\n" {
		t.Errorf("%+v", got.Changes)
	}
}

// The log keeps so many changes, the others are counted; those with something to be had
// back come first.
func TestAuditLogIsBounded(t *testing.T) {
	p := newPlace(t)
	p.o.Changes = 3
	p.reopen()
	p.tree("z: one")
	var changes []Change
	for i := range 10 {
		changes = append(changes, p.change(Added, fmt.Sprint("n", i)))
	}
	p.record(Execution{}, append(changes, p.change(Modified, "z"))...)
	e := p.executions(Filter{})[0]
	if len(e.Changes) != 3 || e.More != 8 || e.Changes[2].Path != "z" || p.read(e.Changes[2].Before) != "one" {
		t.Errorf("%+v", e)
	}
	n := 0
	for range p.Files(p.root) {
		n++
	}
	if n != 11 {
		t.Errorf("%d files are registered", n)
	}
}

func TestAuditLogRetention(t *testing.T) {
	p := newPlace(t)
	p.o.LogRetention, p.o.LogMost = 10*day, 3
	p.reopen()
	for range 5 {
		p.record(Execution{Session: "s"})
		p.after(time.Second)
	}
	if c := p.clean(); c.Executions != 2 || len(p.executions(Filter{})) != 3 {
		t.Errorf("%+v", c)
	}
	p.after(11 * day)
	p.record(Execution{})
	if c := p.clean(); c.Executions != 3 || len(p.executions(Filter{})) != 1 {
		t.Errorf("%+v", c)
	}
}

// What is too large is named, never left out without a word.
func TestLimitsAreNamed(t *testing.T) {
	p := newPlace(t)
	p.o.BackupFile, p.o.BeforeFile, p.o.BeforeAll = 10, 6, 8
	p.reopen()
	p.tree("huge: 12345678901", "large: 1234567", "a: 12345", "b: 12345")
	rec := p.record(Execution{}, p.change(Modified, "huge"), p.change(Modified, "large"), p.change(Modified, "a"), p.change(Modified, "b"))
	var got []string
	for _, o := range rec.Omitted {
		got = append(got, filepath.Base(o.Path)+" "+o.What+": "+o.Why.Error())
	}
	want := "huge before-version: 11 bytes, and before-versions are at most 6 bytes\n" +
		"large before-version: 7 bytes, and before-versions are at most 6 bytes\n" +
		"b before-version: 10 bytes, and before-versions of one execution are at most 8 bytes"
	want = strings.ReplaceAll(want, "6 bytes", "6")
	want = strings.ReplaceAll(want, "8 bytes", "8")
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	rec = p.record(Execution{}, p.change(Modified, "huge"), p.change(Modified, "large"))
	if len(rec.Backups) != 1 || len(rec.Omitted) != 2 || rec.Omitted[0].What != "backup" {
		t.Errorf("%+v", rec)
	}
}

// A session that is kept and committed later, in part, undone, discarded.
func TestSessionsLaterFate(t *testing.T) {
	p := newPlace(t)
	p.tree("a: a", "b: b")
	p.scan()
	del, add := p.change(Deleted, "a"), p.change(Added, "n")
	p.record(Execution{Session: "s", State: StateKept}, del, add)
	p.record(Execution{Session: "other", State: StateKept})
	state := func() string { return p.executions(Filter{Session: "s"})[0].State }

	p.must(os.Remove(p.at("a")))
	p.must(p.Committed(ctx, "s", false, []Change{del}))
	if f := p.file("a"); !f.Deleted || state() != StatePart {
		t.Errorf("in part: %+v, %s", f, state())
	}
	p.tree("n: n")
	p.must(p.Undone(ctx, "s", false, []Change{add}))
	if state() != StatePart {
		t.Errorf("one commit of two was undone: %s", state())
	}
	p.must(p.Committed(ctx, "s", true, []Change{add}))
	if f := p.file("n"); f.Deleted || f.LastModified.IsZero() || state() != StateCommitted {
		t.Errorf("the rest: %+v, %s", f, state())
	}
	p.tree("a: a")
	p.must(os.Remove(p.at("n")))
	p.must(p.Undone(ctx, "s", true, []Change{del, add}))
	if f := p.file("a"); f.Deleted || state() != StateKept {
		t.Errorf("undone: %+v, %s", f, state())
	}
	if _, err := p.File(p.at("n")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("undone, a new file: %v", err)
	}
	thrown := p.change(Added, "thrown")
	p.record(Execution{Session: "s", State: StateKept}, thrown)
	p.file("thrown")
	p.must(p.Dropped(ctx, "s", []Change{thrown}))
	if _, err := p.File(p.at("thrown")); !errors.Is(err, fs.ErrNotExist) || state() != StateKept {
		t.Errorf("dropped: %v, %s", err, state())
	}
	p.record(Execution{Session: "s", State: StateKept}, thrown)
	for i, e := range p.executions(Filter{Session: "s"})[:2] { // the newer one wrote it again
		if e.Changes[0].Dropped != (i == 1) {
			t.Errorf("dropped: %+v", e)
		}
	}
	p.must(p.Discarded(ctx, "s", nil))
	if state() != StateDiscarded || p.executions(Filter{Session: "other"})[0].State != StateKept {
		t.Error(state())
	}
	if n := len(p.executions(Filter{})); n != 4 {
		t.Errorf("%d executions", n)
	}
}

// "permissions … 'always' ones are kept in the database"; "network access is never cached"
func TestPermissionsAreKept(t *testing.T) {
	p := newPlace(t)
	want := Permission{Project: p.root, Action: Write, Target: "/var/tmp/x", Decision: Allow}
	p.must(p.Set(want))
	p.must(p.Set(Permission{Action: Execute, Target: "docker", Decision: Deny}))
	p.reopen()
	got, err := p.Get(p.root, Write, "/var/tmp/x")
	if err != nil || got.Decision != Allow || got.Time.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, other := range []Permission{{Project: "/elsewhere", Action: Write, Target: "/var/tmp/x"}, {Project: p.root, Action: Read, Target: "/var/tmp/x"}, {Project: p.root, Action: Write, Target: "/var/tmp"}} {
		if got, err := p.Get(other.Project, other.Action, other.Target); err != nil || got.Decision != 0 {
			t.Errorf("%+v: %+v, %v", other, got, err)
		}
	}
	if got, err := p.Get(p.root, Execute, "docker"); err != nil || got.Decision != Deny {
		t.Errorf("for all projects: %+v, %v", got, err)
	}
	list, err := p.Permissions()
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	p.must(p.Forget(p.root, Write, "/var/tmp/x"))
	if got, err := p.Get(p.root, Write, "/var/tmp/x"); err != nil || got.Decision != 0 {
		t.Errorf("forgotten: %+v, %v", got, err)
	}
}

func TestNetworkPermissionIsNeverStored(t *testing.T) {
	p := newPlace(t)
	for _, a := range []Action{"network", "Network", "net", "allow-net", "network.host", "internet"} {
		err := p.Set(Permission{Project: p.root, Action: a, Target: "example.org:443", Decision: Allow})
		if !errors.Is(err, ErrNetwork) {
			t.Errorf("%s: %v", a, err)
		}
		// Not even if somebody wrote one into the database.
		rec := permissionRecord{text(p.root), a, "x", Allow, 1}
		if err := decode(encode(&rec), new(permissionRecord)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s was read: %v", a, err)
		}
		if got, err := p.Get(p.root, a, "x"); got.Decision != 0 || err != nil {
			t.Errorf("%s: %+v, %v", a, got, err)
		}
	}
	for _, bad := range []Permission{{Action: "host", Target: "x", Decision: Allow}, {Action: Write, Target: "x"}, {Action: Write, Decision: Allow}, {Action: Write, Target: "x", Project: "p", Decision: Allow}} {
		if p.Set(bad) == nil {
			t.Errorf("%+v was stored", bad)
		}
	}
	if _, err := os.Lstat(filepath.Join(p.o.Dir, dbName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a database: %v", err)
	}
}
