//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// writeUpper writes a file as a command would.
func writeUpper(s *Session, name, text string) error {
	dir := s.path
	if s.mem != nil {
		dir = s.mem.ProcPath()
	}
	return os.WriteFile(filepath.Join(dir, store.UpperName(0), name), []byte(text), 0o644)
}

// TestCollectStruck: whatever happens to a process that stores what the second command of a session wrote, the session
// has the changes of the first one, or of both. What was written to a copy is always found.
func TestCollectStruck(t *testing.T) {
	testenv.Leaks(t)
	first, both := []string{"M f"}, []string{"M f", "A g"}
	for _, e := range enginesHere(t) {
		if e == EngineOverlay {
			continue // it stores nothing
		}
		for _, plain := range []bool{false, true} {
			for i, way := range strikes {
				if !testenv.Turn(i + int(e)) {
					continue
				}
				for at := 1 + i; ; at += testenv.Rounds(7, 1) {
					s := createWith(t, e, project(t, `echo a > f`))
					if err := writeUpper(s, "f", "b\n"); err != nil {
						t.Fatal(err)
					}
					if err := s.Collect(t.Context()); err != nil {
						t.Fatal(err)
					}
					_ = s.Close()
					p := way.plan
					p.At = at
					d := deed{State: filepath.Dir(s.Dir()), ID: s.ID(), Do: "collect", Plain: plain}
					r, out := d.strikeIt(t, p)
					again := reopen(t, s)
					got := []string{}
					for c, err := range again.Changes() {
						if err != nil {
							t.Errorf("%s, plain %t, %s at %v: %v\n%s", e, plain, way.name, r.Call, err, out)
						}
						got = append(got, c.String())
					}
					if !slices.Equal(got, both) && (e == EngineCopy || !slices.Equal(got, first)) {
						t.Errorf("%s, plain %t, %s at %v: %q\n%s", e, plain, way.name, r.Call, got, out)
					}
					if err := again.Remove(); err != nil {
						t.Error(err)
					}
					if r.Call.Name == "" {
						if r.ExitCode != exitDone || r.Calls < len(strikes) {
							t.Fatalf("exit status %d after %d calls\n%s", r.ExitCode, r.Calls, out)
						}
						break
					}
				}
			}
		}
	}
}

// TestCollectShut: a directory and a file that the command shut stay shut in the session, although a process that reads
// the copy opens them for a moment, whenever it is killed.
func TestCollectShut(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedUser(t) // root can read them as they are
	for at := 1; ; at += testenv.Rounds(3, 1) {
		s := createWith(t, EngineCopy, project(t, `echo a > f`))
		up := filepath.Join(s.path, store.UpperName(0))
		testenv.Tree(t, up, "d/", "d/in/", "d/in/g")
		for _, name := range []string{"d/in/g", "d/in", "d"} {
			if err := os.Chmod(filepath.Join(up, name), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		d := deed{State: filepath.Dir(s.Dir()), ID: s.ID(), Do: "collect", Plain: at%2 == 0}
		r, out := d.strikeIt(t, strike.Plan{At: at})
		again := reopen(t, s)
		shut := 0
		for c, err := range again.Changes() {
			if err != nil {
				t.Errorf("killed at %v: %v\n%s", r.Call, err, out)
			}
			if c.Mode.Perm() == 0 {
				shut++
			} else if c.Path != "g" {
				t.Errorf("killed at %v: %v is %v", r.Call, c, c.Mode)
			}
		}
		if shut != 3 {
			t.Errorf("killed at %v: %d are shut\n%s", r.Call, shut, out)
		}
		if err := again.Remove(); err != nil {
			t.Error(err)
		}
		if r.Call.Name == "" {
			break
		}
	}
}

// TestResumeStruck: whatever happens to a process that resumes a session, the session has the changes that it had, and
// can be resumed.
func TestResumeStruck(t *testing.T) {
	testenv.Leaks(t)
	for _, e := range enginesHere(t) {
		for i, way := range strikes {
			if !testenv.Turn(i + int(e)) {
				continue
			}
			for at := 1 + i; ; at += testenv.Rounds(7, 1) {
				s := createWith(t, e, project(t, `echo a > f; mkdir d`))
				sandbox(t, s, `echo b > f; echo c > d/g`)
				_ = s.Close()
				p := way.plan
				p.At = at
				r, out := deed{State: filepath.Dir(s.Dir()), ID: s.ID(), Do: "resume"}.strikeIt(t, p)
				again := reopen(t, s)
				wantChanges(t, again, "A d/g", "M f")
				if err := errors.Join(again.Resume(nil), again.Collect(t.Context())); err != nil {
					t.Errorf("%s, %s at %v: %v\n%s", e, way.name, r.Call, err, out)
				}
				wantChanges(t, again, "A d/g", "M f")
				if err := again.Remove(); err != nil {
					t.Error(err)
				}
				if r.Call.Name == "" {
					if r.ExitCode != exitDone || r.Calls < len(strikes) && e != EngineOverlay {
						t.Fatalf("exit status %d after %d calls\n%s", r.ExitCode, r.Calls, out)
					}
					break
				}
			}
		}
	}
}

// collectMore runs the next command of a session, up to when it has ended.
func collectMore(s *Session) error {
	if err := s.Resume(nil); err != nil {
		return err
	}
	return writeUpper(s, "g", "new\n")
}

// TestCopyStays: a copy that could be removed only in part is not compared again. Its missing files would look deleted.
func TestCopyStays(t *testing.T) {
	testenv.Leaks(t)
	if !tree.IsRoot() {
		return // who may not make files immutable
	}
	s := createWith(t, EngineCopy, project(t, `echo a > f; echo a > g`))
	if err := writeUpper(s, "f", "b\n"); err != nil {
		t.Fatal(err)
	}
	immutable := func(flags int) {
		for _, name := range []string{copiedName, store.UpperName(0) + "/g"} {
			f, err := os.Open(filepath.Join(s.path, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
				testenv.Skip(t, "immutable files", err.Error())
			}
			_ = f.Close()
		}
	}
	immutable(0x10) // FS_IMMUTABLE_FL of linux/fs.h
	err := s.Collect(t.Context())
	immutable(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	wantChanges(t, reopen(t, s), "M f")
}

// TestReaderLeavesStoring: a process that only reads a session takes nothing from the one that is just storing changes
// in it.
func TestReaderLeavesStoring(t *testing.T) {
	testenv.Leaks(t)
	s := createWith(t, withoutUpper(), project(t, `echo a > f`))
	sandbox(t, s, `echo b > f`)
	storing := filepath.Join(s.path, tree.PackingName)
	if err := os.Rename(filepath.Join(s.path, tree.PackedName), storing); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenReadOnly(filepath.Dir(s.Dir()), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	wantChanges(t, reader, "M f")
	if _, err := os.Stat(storing); err != nil {
		t.Error(err)
	}
	// Its owner gives it the name before it stores more.
	if err := s.Resume(nil); err != nil {
		t.Fatal(err)
	}
	sandbox(t, s, `echo c > g`)
	wantChanges(t, s, "M f", "A g")
}

// TestPreserveAfterFullDisk: a version that was half written on a full disk, or by a killed process, does not prevent
// later ones from being kept.
func TestPreserveAfterFullDisk(t *testing.T) {
	testenv.Leaks(t)
	s := create(t, project(t, `echo 1 > f; echo 1 > g`))
	sandbox(t, s, `echo 2 > f; echo 2 > g`)
	testenv.Tree(t, s.path, "base/1: ", "base/index: "+`{"root":0,"path":"f"}`+"\n"+`{"root":0,"pa`)
	preserve(t, s)
	for _, name := range []string{"f", "g"} {
		data, ok, err := s.baseOf(store.Place{Path: name})
		if string(data) != "1\n" || !ok || err != nil {
			t.Errorf("%s: %q, %t, %v", name, data, ok, err)
		}
	}
}
