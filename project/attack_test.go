//go:build linux

package project

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestDirectoriesThatAreLinks: a directory of the registry is a link to another one of the
// caller's. Nothing is written there. The control follows it.
func TestDirectoriesThatAreLinks(t *testing.T) {
	for _, name := range []string{"state", "cache", "cache/edited", "cache/temp-files"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.tree("a: one")
			top := filepath.Dir(p.root)
			if name != "state" {
				p.scan()
			}
			victim := filepath.Join(top, "victim")
			p.must(os.Mkdir(victim, 0o700))
			link := filepath.Join(top, name)
			p.must(os.MkdirAll(filepath.Dir(link), 0o700))
			p.must(os.RemoveAll(link))
			p.must(os.Symlink(victim, link))
			_, err := p.Record(ctx, Execution{Roots: []string{p.root}}, []Change{p.change(Modified, "a")}, p.original)
			if err == nil {
				t.Error("it was followed")
			}
			if _, err := p.Clean(ctx); err == nil {
				t.Error("Clean followed the link")
			}
			if names, _ := os.ReadDir(victim); len(names) > 0 {
				t.Errorf("there is %v", names)
			}
			p.must(os.WriteFile(filepath.Join(link, "control"), nil, 0o600))
			if names, _ := os.ReadDir(victim); len(names) != 1 {
				t.Error("the control does not follow the link")
			}
		})
	}
}

// TestSwappedBackups: the directory of backups is exchanged with a link again and again.
func TestSwappedBackups(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	p.must(os.MkdirAll(filepath.Join(p.o.Cache, editedName), 0o700))
	victim := filepath.Join(filepath.Dir(p.root), "victim")
	p.must(os.Mkdir(victim, 0o700))
	pair := testenv.Pair{A: filepath.Join(p.o.Cache, editedName), B: filepath.Join(p.o.Cache, "link")}
	p.must(os.Symlink(victim, pair.B))
	testenv.Swap(t, pair)
	refused := 0
	for i := range 200 {
		p.after(day) // a new backup each time
		if _, err := p.Record(ctx, Execution{Roots: []string{p.root}}, []Change{p.change(Modified, "a")}, p.original); err != nil {
			refused++
		}
		if names, _ := os.ReadDir(victim); len(names) > 0 {
			t.Fatalf("try %d: there is %v", i, names)
		}
	}
	t.Logf("refused %d of 200", refused)
	testenv.Fooled(t, func() bool { fi, err := os.Lstat(pair.A); return err == nil && fi.IsDir() }, func() bool {
		return os.WriteFile(filepath.Join(pair.A, "x"), nil, 0o600) == nil && os.Remove(filepath.Join(victim, "x")) == nil
	})
}

// TestSomebodyElsesDirectory is refused.
func TestSomebodyElsesDirectory(t *testing.T) {
	testenv.NeedRoot(t)
	p := newPlace(t)
	for _, dir := range []string{p.o.Dir, p.o.Cache} {
		p.must(errors.Join(os.MkdirAll(dir, 0o700), os.Chown(dir, 1000, 1000)))
		_, err := p.Record(ctx, Execution{}, []Change{p.change(Added, "a")}, nil)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "belongs to user 1000") {
			t.Errorf("%v", err)
		}
		p.must(os.Chown(dir, 0, 0))
		p.must(os.Chmod(dir, 0o777))
		if _, err := p.Record(ctx, Execution{}, []Change{p.change(Added, "a")}, nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("everybody can write: %v", err)
		}
		p.must(os.Chmod(dir, 0o700))
	}
}

// TestHostileNames: names that a command made up.
func TestHostileNames(t *testing.T) {
	p := newPlace(t)
	long := strings.Repeat("ä", 120) + ".txt"
	names := []string{"a\nb", "-rf", "..x", "\x1b[2J", "1-26-01-01-x", "x\xff", long, strings.Repeat("x", 255), "a\\b", "%s", "~"}
	for _, name := range names {
		p.must(os.WriteFile(p.at(name), []byte(name), 0o644))
	}
	p.scan()
	var changes []Change
	for _, name := range names {
		changes = append(changes, p.change(Modified, name))
	}
	rec := p.record(Execution{}, changes...)
	if len(rec.Backups) != len(names) {
		t.Fatalf("%d backups", len(rec.Backups))
	}
	for i, b := range rec.Backups {
		base := filepath.Base(b.Copy)
		if p.read(b.Copy) != names[i] || b.Path != p.at(names[i]) {
			t.Errorf("%q is not the backup of %q", base, names[i])
		}
		if id, _, ok := parseBackup(base); !ok || int64(id) != p.file(names[i]).ID || len(base) > nameMost || strings.ContainsFunc(base, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
			t.Errorf("%q", base)
		}
	}
	for _, c := range p.executions(Filter{})[0].Changes {
		if p.read(c.Before) != c.Path {
			t.Errorf("%q: %q", c.Path, c.Before)
		}
	}
	if !strings.HasSuffix(rec.Backups[6].Copy, "ä.txt") {
		t.Errorf("%q", rec.Backups[6].Copy)
	}
	// Paths that lead out of the project are none.
	for _, path := range []string{"../x", "/etc/passwd", "a/../../x", "", "a//b", "x\x00"} {
		if _, err := p.Record(ctx, Execution{}, []Change{p.change(Modified, path)}, p.original); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

// TestNoRegularFile: where the original was there is a FIFO, a directory, a link, a device.
// Nothing waits, and nothing but regular files is copied.
func TestNoRegularFile(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one", "secret: s")
	p.scan()
	make := map[string]func(string) error{
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o644) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o644, 0) },
	}
	if testenv.Root() {
		make["device"] = func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o644, 1<<8|5) } // /dev/zero
	}
	for what, mk := range make {
		p.must(os.Remove(p.at("a")))
		p.must(mk(p.at("a")))
		_, err := p.Record(ctx, Execution{}, []Change{p.change(Modified, "a")}, func(c Change) (*os.File, error) {
			fd, err := unix.Open(c.Name(), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), c.Name()), nil
		})
		if err == nil {
			t.Errorf("%s: the file was copied", what)
		}
		if err := p.Scan(ctx, p.root); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		v := Version{Path: p.at("secret"), Copy: "x", Before: true}
		if _, err := p.Restore(ctx, v, p.at("a")); err == nil {
			t.Errorf("%s: the file was replaced", what)
		}
	}
	if names, _ := os.ReadDir(filepath.Join(p.o.Cache, editedName)); len(names) > 0 {
		t.Errorf("there is %v", names)
	}
}

// TestScanFollowsNothing: links to files and directories, inside and outside.
func TestScanFollowsNothing(t *testing.T) {
	p := newPlace(t)
	outside := filepath.Join(filepath.Dir(p.root), "outside")
	testenv.Tree(t, outside, "secret: s")
	p.tree("d/a: one", "out => "+outside, "file => "+outside+"/secret", "in => d", "loop => .", ".git/config: x", "d/.git/x: x")
	p.must(unix.Mkfifo(p.at("fifo"), 0o644))
	p.scan()
	var got []string
	for f, err := range p.Files("") {
		p.must(err)
		got = append(got, f.Path)
	}
	if len(got) != 1 || got[0] != p.at("d/a") {
		t.Errorf("%q", got)
	}
	p.must(os.Symlink(p.root, p.root+"-link"))
	if err := p.Scan(ctx, p.root+"-link"); err == nil {
		t.Error("a root that is a link was scanned")
	}
}

// TestScanKeepsWhatItCannotRead.
func TestScanKeepsWhatItCannotRead(t *testing.T) {
	testenv.NeedUser(t)
	p := newPlace(t)
	p.tree("d/a: one", "b: one")
	p.scan()
	p.must(os.Remove(p.at("b")))
	p.must(os.Chmod(p.at("d"), 0))
	err := p.Scan(ctx, p.root)
	p.must(os.Chmod(p.at("d"), 0o755))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it says %v", err)
	}
	p.file("d/a")
	if _, err := p.File(p.at("b")); err == nil {
		t.Error("b is still there")
	}
}

// TestCleanRemovesNothingElse: what somebody put into the directories stays.
func TestCleanRemovesNothingElse(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	rec := p.record(Execution{}, p.change(Modified, "a"))
	edited, temp := filepath.Join(p.o.Cache, editedName), filepath.Join(p.o.Cache, tempName)
	outside := filepath.Join(filepath.Dir(p.root), "outside")
	testenv.Tree(t, outside, "0-x: x", "x: x")
	testenv.Tree(t, edited, "notes: x", "0-20-01-01-x: x", "01-20-01-01-x: x", "1-20-13-01-x: x", "1-20-01-01: x", "7-20-01-01-dir/", "8-20-01-01-link => "+outside+"/x", ".new-mine: x")
	testenv.Tree(t, temp, "notes: x", rec.ID+"/mine: x", "20200101T000000.000Z-abcdefgh => "+outside, "20200101T000000.000Z-ABCDEFGH/x: x")
	before := append(testenv.Listing(t, p.o.Cache), testenv.Listing(t, outside)...)
	p.after(30 * day)
	c := p.clean()
	if c.Backups != 1 {
		t.Errorf("%+v", c)
	}
	after := strings.Join(append(testenv.Listing(t, p.o.Cache), testenv.Listing(t, outside)...), "\n")
	gone := 0
	for _, line := range before {
		if !strings.Contains(after, line) {
			gone++
		}
	}
	if gone != 2 { // the backup, and the version before
		t.Errorf("%d are gone; these are left:\n%s", gone, after)
	}
}

// TestHalfABackup: a process was killed while it copied. The name is not there, the next
// one makes it, and Clean removes the half.
func TestHalfABackup(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one")
	p.scan()
	edited := filepath.Join(p.o.Cache, editedName)
	p.must(os.MkdirAll(edited, 0o700))
	half := filepath.Join(edited, newPrefix+"aaaabbbb")
	p.must(os.WriteFile(half, []byte("o"), 0o600))
	rec := p.record(Execution{}, p.change(Modified, "a"))
	if p.read(rec.Backups[0].Copy) != "one" {
		t.Error("no backup")
	}
	p.clean()
	if _, err := os.Lstat(half); err != nil {
		t.Errorf("a young file, which another process may be writing, was removed: %v", err)
	}
	p.after(2 * orphanAge)
	p.clean()
	if _, err := os.Lstat(half); err == nil {
		t.Error("the old file is still there")
	}
}

// TestBackupCannotBeMade: the failure is reported, and everything else is recorded.
func TestBackupCannotBeMade(t *testing.T) {
	p := newPlace(t)
	p.tree("a: one", "b: two")
	p.scan()
	rec, err := p.Record(ctx, Execution{Roots: []string{p.root}}, []Change{p.change(Modified, "a"), p.change(Modified, "b")}, func(c Change) (*os.File, error) {
		if c.Path == "a" {
			return nil, unix.EIO
		}
		return p.original(c)
	})
	if !errors.Is(err, unix.EIO) || len(rec.Backups) != 1 || rec.Backups[0].Path != p.at("b") {
		t.Errorf("%+v, %v", rec, err)
	}
	if e := p.executions(Filter{}); len(e) != 1 || len(e[0].Changes) != 2 {
		t.Errorf("%+v", e)
	}
	if f := p.file("a"); f.LastApprovedCopyPath != "" {
		t.Errorf("%+v", f)
	}
}

// damagedDB is a database with something in every bucket.
func (p *place) filled() []byte {
	p.t.Helper()
	p.tree("a: one", "b/c: two")
	p.scan()
	for range 3 {
		p.record(Execution{Session: "s", Command: []string{"x"}}, p.change(Modified, "a"), p.change(Added, "n"))
	}
	p.must(p.Set(Permission{Action: Execute, Target: "x", Decision: Allow}))
	db, err := os.ReadFile(filepath.Join(p.o.Dir, dbName))
	p.must(err)
	return db
}

// use does a bit of everything, and returns the errors.
func (p *place) use() (errs []error) {
	r := Open(p.o)
	for _, err := range r.Files("") {
		errs = append(errs, err)
	}
	for _, err := range r.Executions(Filter{}) {
		errs = append(errs, err)
	}
	_, err := r.Get("", Execute, "x")
	errs = append(errs, err)
	_, err = r.Clean(ctx)
	errs = append(errs, err, r.Scan(ctx, p.root), r.Set(Permission{Action: Execute, Target: "y", Decision: Deny}), r.Close())
	return errs
}

// TestDamagedDatabase: whatever a disk did to the file, there are errors, and no panic, no
// endless loop, no fault.
func TestDamagedDatabase(t *testing.T) {
	p := newPlace(t)
	db := p.filled()
	path := filepath.Join(p.o.Dir, dbName)
	try := func(name string, data []byte, must bool) {
		t.Helper()
		p.must(os.WriteFile(path, data, 0o600))
		err := errors.Join(p.use()...)
		if must && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	page := func(data []byte, id int) []byte { return data[id*os.Getpagesize():] }
	for cut := 1; cut < len(db); cut += len(db)/7 + 1 {
		try("cut", db[:cut], cut < len(db)/2)
	}
	try("zeros", make([]byte, len(db)), true)
	try("text", bytes.Repeat([]byte("text\n"), 10_000), true)
	loop := bytes.Clone(db)
	for id := 2; id < len(db)/os.Getpagesize(); id++ {
		pg := page(loop, id)
		if flags := binary.NativeEndian.Uint16(pg[8:]); flags == leafPage {
			// Every leaf becomes a branch that leads to itself.
			binary.NativeEndian.PutUint16(pg[8:], branchPage)
			binary.NativeEndian.PutUint16(pg[10:], 1)
			binary.NativeEndian.PutUint32(pg[16:], 16)
			binary.NativeEndian.PutUint32(pg[20:], 1)
			binary.NativeEndian.PutUint64(pg[24:], uint64(id))
		}
	}
	try("its own ancestor", loop, true)
	for i := range 200 {
		data := bytes.Clone(db)
		at := (i * 7919) % len(data)
		data[at] ^= 1 << (i % 8)
		try("a bit", data, false)
	}
	p.must(os.WriteFile(path, db, 0o600))
	for _, err := range p.use() {
		if err != nil {
			t.Errorf("as it was: %v", err)
		}
	}
}

func TestNewerDatabase(t *testing.T) {
	p := newPlace(t)
	p.filled()
	p.must(p.update(func(tx *bbolt.Tx) error { return bucket(tx, metaBucket).Put(versionKey, number(current+1)) }))
	err := p.Set(Permission{Action: Execute, Target: "x", Decision: Allow})
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "registry.db") || !strings.Contains(err.Error(), "newer version of nsrun") {
		t.Errorf("%v", err)
	}
	if _, err := p.File(p.at("a")); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
	// The audit log does not get lost meanwhile.
	p.record(Execution{Command: []string{"later"}})
	p.must(p.rawUpdate(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, number(current)) }))
	if e := p.executions(Filter{}); len(e) != 4 || e[0].Command[0] != "later" {
		t.Errorf("%+v", e)
	}
}

func (p *place) rawUpdate(fn func(*bbolt.Tx) error) error {
	db, err := bbolt.Open(filepath.Join(p.o.Dir, dbName), 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(fn), db.Close())
}

// TestMigration: testdata/v1.db was written by this package before executions were found by
// their session: one registered file with a backup, and two executions of session "s".
func TestMigration(t *testing.T) {
	for name, use := range map[string]func(*place) error{
		"read first":  func(p *place) error { _, err := p.File("/home/me/src/a"); return err },
		"write first": func(p *place) error { return p.Set(Permission{Action: Execute, Target: "x", Decision: Allow}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			v1, err := os.ReadFile("testdata/v1.db")
			p.must(err)
			p.must(os.Mkdir(p.o.Dir, 0o700))
			p.must(os.WriteFile(filepath.Join(p.o.Dir, dbName), v1, 0o600))
			p.must(use(p))
			if list := p.executions(Filter{Session: "s"}); len(list) != 2 || list[0].Command[0] != "make" || list[0].Changes[0].Path != "a" {
				t.Errorf("%+v", list)
			}
			p.must(p.Committed(ctx, "s", true, nil))
			if list := p.executions(Filter{Session: "s"}); list[1].State != StateCommitted {
				t.Errorf("%+v", list)
			}
			f, err := p.File("/home/me/src/a")
			p.must(err)
			if f.ID != 1 || len(f.Backups) != 1 || f.LastModified.IsZero() {
				t.Errorf("%+v", f)
			}
			p.must(p.viewAsIs(func(tx *bbolt.Tx) error {
				v, err := version(tx)
				if v != current {
					t.Errorf("version %d", v)
				}
				return err
			}))
			p.whole()
		})
	}
}

func FuzzVerify(f *testing.F) {
	v1, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(v1[:4096*4], uint32(0), byte(0))
	f.Add(v1, uint32(4096*3+9), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, x byte) {
		if len(data) > 0 {
			data[int(at)%len(data)] ^= x
		}
		_ = verify(data)
	})
}

func FuzzJournalLine(f *testing.F) {
	e := &Execution{ID: newExecution(time.Now()), Command: []string{"x\xff"}, Roots: []string{"/p"}}
	rec := e.record()
	rec.Changes = []changeRecord{{Kind: Modified, Path: "a", Before: "0-a"}}
	f.Add(encodeLine(&op{Execution: rec})[18:])
	f.Add([]byte(`{"files":[{"id":1,"date":"26-01-01","copy":"/x/1-26-01-01-a","backup":{"name":"1-26-01-01-a","size":1}}]}`))
	f.Add([]byte(`{"settle":{"session":"s","state":"kept","time":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		line := append([]byte(nil), encodeLine(&op{})[1:18]...)
		line = append(line, data...)
		_, _ = decodeLine(line)
		_, _ = decodeLine(data)
		for _, to := range []any{new(fileRecord), new(backupRecord), new(executionRecord), new(permissionRecord), new(projectRecord)} {
			_ = decode(data, to)
		}
		// With the right checksum.
		sum := []byte(strings.ToLower(hex(checksum(data))) + " ")
		o, err := decodeLine(append(sum, data...))
		if err != nil {
			return
		}
		again, err := decodeLine(bytes.TrimSpace(encodeLine(o)))
		if err != nil || !bytes.Equal(encodeLine(again), encodeLine(o)) {
			t.Errorf("%q: %v", data, err)
		}
		if o.Execution != nil {
			_ = o.Execution.execution("/temp")
		}
	})
}

func hex(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[n>>(4*i)&15]
	}
	return string(b[:])
}
