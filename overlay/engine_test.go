//go:build linux

package overlay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// createWith begins a session with an engine, and skips where the kernel has not what
// that takes.
func createWith(t testing.TB, e Engine, roots ...string) *Session {
	t.Helper()
	s, err := Create(Options{Roots: roots, Dir: filepath.Join(tempDir(t), "state"), Engine: e})
	skipMissing(t, err)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// skipMissing skips where err says that this kernel does not have a feature.
func skipMissing(t testing.TB, err error) {
	t.Helper()
	if e, ok := errors.AsType[*features.MissingError](err); ok {
		testenv.Skip(t, string(e.Feature.Name), e.Feature.Why)
	}
}

// enginesHere are those that this kernel takes; each of the others is a test that is skipped.
func enginesHere(t *testing.T) (list []Engine) {
	takes := map[Engine]features.Name{EngineOverlay: features.Overlay, EngineTmpfs: features.TmpfsAttributes}
	for _, e := range engines {
		if name, ok := takes[e]; ok && !features.Has(name) {
			t.Run(e.String(), func(t *testing.T) { skipMissing(t, features.Get(name).Err()) })
			continue
		}
		list = append(list, e)
	}
	return list
}

// withoutUpper is the engine that is chosen where the state directory cannot hold an upper directory.
func withoutUpper() Engine {
	if features.Has(features.TmpfsAttributes) {
		return EngineTmpfs
	}
	return EngineCopy
}

var engines = []Engine{EngineOverlay, EngineTmpfs, EngineCopy}

// What each engine has of one script: the changes, and all files of both versions.
func TestEngines(t *testing.T) {
	const before = `mkdir -p d/e/f gone o same closed; echo a > d/f; echo a > d/e/x; echo a > gone/x; echo a > o/old
		echo a > same/f; ln -s a l; ln -s a d/l; mkfifo p; echo h > h1; ln h1 h2; echo t > typ; mkdir typd; echo x > typd/x
		echo a > mode; echo r > replaced; touch -d @1000 d/f d/e same; echo a > moved; mkdir -p md/x; echo a > md/x/f`
	for _, tt := range []struct{ name, script, also string }{
		{"nothing", ``, ``},
		{"content", `echo b > d/f; echo bb > d/e/x; printf n > new; echo a > same/f`, ``},
		{"deletions", `rm d/f l p; rm -r gone; rm h1`, ``},
		{"opaque", `rm -r o; mkdir o; echo n > o/new`, ``},
		{"types", `rm typ; mkdir typ; echo x > typ/y; rm -r typd; echo f > typd; rm l; echo f > l; rm p; ln -s x p`, ``},
		{"modes and times", `chmod 700 mode d; touch -d @2000 same/f; chmod 1777 o`, ``},
		{"new directories", `mkdir -p n/a/b; echo x > n/a/b/c; ln -s ../x n/l; mkfifo n/p; mkdir n/empty; chmod 555 n/a`, ``},
		{"links", `echo x > n1; ln n1 n2; mkdir n; ln n1 n/n3; ln -sfn b l`, ``},
		{"moves", `mv moved moved2; mv md md2; mv replaced d/replaced`, ``},
		{"closed", `echo x > closed/x; mkdir closed/y; echo z > closed/y/z; chmod 000 closed/x closed/y closed`, ``},
		{"sparse", `truncate -s 1M s; printf end >> s`, ``},
		{"names", "echo x > 'a b'; echo y > '\\'; printf '' > \"$(printf 'n\\nl')\"", ``},
		{"twice", `echo one > d/f; rm gone/x; mkdir nn; echo q > nn/q; rm -r o`, `echo two > d/f; echo again > gone/x; rm nn/q; mkdir o; echo 2 > o/2; rm l`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.TakeTurns(t)
			want := ""
			for i, e := range enginesHere(t) {
				s := createWith(t, e, project(t, before))
				saw := sandbox(t, s, tt.script)
				if tt.also != "" {
					if err := s.Resume(nil); err != nil {
						t.Fatalf("%s: %v", e, err)
					}
					if got := sandbox(t, s, ``); withoutTimes(got) != withoutTimes(saw) {
						t.Errorf("%s: put back:", e)
						wantSame(t, withoutTimes(got), withoutTimes(saw))
					}
					if err := s.Resume(nil); err != nil {
						t.Fatalf("%s: %v", e, err)
					}
					sandbox(t, s, tt.also)
				}
				got := versions(t, s)
				if i == 0 {
					want = got
				} else if got != want {
					t.Errorf("%s and overlay differ:", e)
					wantSame(t, got, want)
				}
				root := s.Roots()[0].Path
				was := look(t, root)
				commitAll(t, s)
				// A backup is another name of what was deleted.
				saw = strings.ReplaceAll(saw, " 2 names", "")
				if now := strings.ReplaceAll(look(t, root), " 2 names", ""); tt.also == "" && now != saw {
					t.Errorf("%s: committed:", e)
					wantSame(t, now, saw)
				}
				if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
					t.Errorf("%s: undo: %v", e, err)
				}
				if now := look(t, root); now != was {
					t.Errorf("%s: undone:", e)
					wantSame(t, now, was)
				}
				if s.Info().Engine != e {
					t.Errorf("engine %s", s.Info().Engine)
				}
			}
		})
	}
}

// withoutTimes is a snapshot without what the time of the test is in.
func withoutTimes(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, " at ")
	}
	return strings.Join(lines, "\n")
}

// versions is everything that can be asked of a session's changes.
func versions(t testing.TB, s *Session) string {
	t.Helper()
	var b strings.Builder
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %v %d, was %v %d", details(c), c.Mode, c.Size, c.OldMode, c.OldSize)
		for _, side := range []Side{Before, After} {
			if f, err := s.File(c, side); err == nil {
				var data bytes.Buffer
				_, err = data.ReadFrom(f)
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, " %q", data.Bytes()[:min(50, data.Len())])
			} else if text, err := s.Link(c, side); err == nil {
				fmt.Fprintf(&b, " -> %q", text)
			}
		}
		for d := range s.Below(c) {
			b.WriteString(" " + d.String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A stored session is opened by another process.
func TestStoredSessionOpens(t *testing.T) {
	for _, e := range enginesHere(t) {
		s := createWith(t, e, project(t, `echo a > f`))
		sandbox(t, s, `echo b > f; echo c > g`)
		want := versions(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := reopen(t, s)
		if got := versions(t, again); got != want || again.Info().Engine != e {
			t.Errorf("%s: %s", e, got)
		}
		if err := again.Erase(); err != nil {
			t.Fatal(err)
		}
		names, err := os.ReadDir(again.Dir())
		if err != nil || len(names) > 2 {
			t.Errorf("%s: left behind: %v, %v", e, names, err)
		}
	}
}

// What was in memory when the program was killed is lost, and an error says so.
func TestLostSession(t *testing.T) {
	wantLost(t, createWith(t, EngineTmpfs, project(t, `echo a > f`)))
}

// wantLost runs a command in a session that is in memory, and does not store what it wrote.
func wantLost(t *testing.T, s *Session) {
	t.Helper()
	runHelper(t, helperInput{s.Mounts(), `echo b > f`, []string{s.Roots()[0].Path}}, s.Layers()...)
	_ = s.Close()
	lost := false
	for _, err := range reopen(t, s).Changes() {
		if lost = true; !errors.Is(err, s.lost()) {
			t.Errorf("error %v", err)
		}
	}
	if !lost {
		t.Error("nothing says that changes are lost")
	}
}

// After the program was killed, the changes in a copy are found. If the state directory cannot store modes, the copy is
// in memory.
func TestKilledCopy(t *testing.T) {
	root := project(t, `mkdir -p d/e; echo a > d/f; echo a > g; ln -s a l; echo a > h`)
	s := createWith(t, EngineCopy, root)
	if len(s.Layers()) > 0 {
		wantLost(t, s)
		return
	}
	run := func(s *Session, script string) {
		t.Helper()
		runHelper(t, helperInput{s.Mounts(), script, []string{root}})
		_ = s.Close()
	}
	run(s, `echo b > d/f; rm g; mkdir d/e/n; ln -sfn b l`)
	reader, err := OpenReadOnly(filepath.Dir(s.Dir()), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	wantChanges(t, reader, "A d/e/n/", "M d/f", "D g", "M l")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, s)
	wantChanges(t, again, "A d/e/n/", "M d/f", "D g", "M l")
	if err := again.Resume(nil); err != nil {
		t.Fatal(err)
	}
	run(again, `echo c > g; rm h`)
	again = reopen(t, s)
	wantChanges(t, again, "A d/e/n/", "M d/f", "M g", "D h", "M l")
	if err := again.Discard(); err != nil {
		t.Fatal(err)
	}
}

// A path that is too long is reported, whatever the engine, and nothing else suffers for it.
func TestLongPath(t *testing.T) {
	for _, e := range enginesHere(t) {
		s := createWith(t, e, project(t, `true`))
		sandbox(t, s, `d=$(printf %0200d 0); p=$d; while [ ${#p} -lt 3968 ]; do p=$p/$d; done; mkdir -p $p/below; echo x > f; echo x > g`)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		var why error
		for _, err := range s.Changes() {
			why = cmp.Or(why, err)
		}
		if !errors.Is(why, unix.ENAMETOOLONG) || !strings.Contains(why.Error(), "cannot be committed") {
			t.Errorf("%s: changes: %v", e, why)
		}
		if err := s.Commit(t.Context()); !errors.Is(err, unix.ENAMETOOLONG) {
			t.Errorf("%s: commit: %v", e, err)
		}
		if err := s.Commit(t.Context(), "f"); err != nil {
			t.Errorf("%s: commit of another file: %v", e, err)
		}
		if err := s.CommitWith(t.Context(), CommitOptions{Exclude: []string{"0*"}}); err != nil {
			t.Errorf("%s: commit without it: %v", e, err)
		}
		if got := strings.Count(look(t, s.Roots()[0].Path), "\n"); got != len([]string{".", "f", "g"}) {
			t.Errorf("%s: the project has %d objects", e, got)
		}
		if err := s.Discard(); err != nil {
			t.Errorf("%s: discard: %v", e, err)
		}
	}
}

// Attributes that are marks in an overlay have no meaning in a copy, and hide nothing of what else a command wrote.
func TestMarksInCopy(t *testing.T) {
	s := createWith(t, EngineCopy, project(t, `echo a > f; mkdir d; echo a > d/f`))
	if len(s.Layers()) > 0 {
		return // the copy is in memory
	}
	upper := s.Roots()[0].Upper
	outside(t, upper, `echo b > f; mkdir n; echo b > n/f; echo b > g`)
	for _, name := range []string{"f", "n", "n/f", "d", "d/f"} {
		for _, mark := range []string{"redirect", "metacopy", "opaque", "origin"} {
			if err := unix.Setxattr(filepath.Join(upper, name), tree.OverlayPrefix+mark, []byte("y"), 0); err != nil {
				testenv.Skip(t, "user attributes", err.Error())
			}
		}
	}
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, s, "M f", "A g", "A n/", "A n/f")
	commitAll(t, s)
}

// A path of the project that is too long cannot be copied; the error comes before the command runs.
func TestLongPathToCopy(t *testing.T) {
	root := project(t, `d=$(printf %0200d 0); p=$d; while [ ${#p} -lt 3968 ]; do p=$p/$d; done; mkdir -p $p`)
	s, err := Create(Options{Roots: []string{root}, Dir: filepath.Join(tempDir(t), "state"), Engine: EngineCopy})
	if !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("session %v, error %v", s, err)
	}
}

// Changes to the project while the command runs are not the command's.
func TestCopyAndOutside(t *testing.T) {
	root := project(t, `echo a > f; echo a > g; echo a > h`)
	s := createWith(t, EngineCopy, root)
	outside(t, root, `echo late > g; rm h; echo late > i`)
	sandbox(t, s, `echo b > f`)
	wantChanges(t, s, "M f")
}

func TestEngineText(t *testing.T) {
	for i, e := range engines {
		text, err := e.MarshalText()
		var back Engine
		if err != nil || back.UnmarshalText(text) != nil || back != e || int(e) != i+1 {
			t.Errorf("%v %s %v", e, text, err)
		}
	}
}

// What was dropped stays dropped when another command has run, unless that wrote it.
func TestDropAndResume(t *testing.T) {
	for _, e := range enginesHere(t) {
		s := createWith(t, e, project(t, `echo a > f; echo a > g; echo a > h; echo a > gone`))
		sandbox(t, s, `echo b > f; echo b > g; echo b > h; rm gone`)
		if err := s.Drop(t.Context(), "f", "g", "gone"); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, s, "M h")
		if err := s.Resume(nil); err != nil {
			t.Fatal(err)
		}
		sandbox(t, s, `echo c > g`)
		wantChanges(t, s, "M g", "M h")
	}
}

// A state directory on an overlay, as in a container, cannot hold an upper directory.
func TestStateOnOverlay(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	dir := tempDir(t)
	testenv.Tree(t, dir, "lower/", "merged/")
	mount := func(source, target, fstype, data string) {
		t.Helper()
		if err := unix.Mount(source, target, fstype, 0, data); err != nil {
			testenv.Skip(t, fstype, err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
	outside(t, dir, `mkdir upper work`)
	mount("overlay", dir+"/merged", "overlay", "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	root := project(t, `echo a > f; mkdir d; echo a > d/f`)
	s, err := Create(Options{Roots: []string{root}, Dir: dir + "/merged/state"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if e := s.Info().Engine; e != withoutUpper() {
		t.Fatalf("engine %s", e)
	}
	saw := sandbox(t, s, `echo b > f; rm -r d; mkdir d; echo n > d/n`)
	wantChanges(t, s, "D d/f", "A d/n", "M f")
	commitAll(t, s)
	wantSame(t, look(t, root), saw)
}

// A file system whose directories do not say of what type their entries are: the kernel mounts an overlay there, in
// which nothing that was emptied can be removed.
func TestStateWithoutTypes(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	dir := testenv.Untyped(t)
	for _, e := range []Engine{0, EngineTmpfs, EngineCopy} {
		root := project(t, `mkdir gone d; echo a >gone/x; echo a >d/f`)
		s, err := Create(Options{Roots: []string{root}, Dir: dir + "/state", Engine: e})
		skipMissing(t, err)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Info().Engine; e == 0 && got != withoutUpper() {
			t.Errorf("engine %s", got)
		}
		saw := sandbox(t, s, `rm -r gone; rm -r d; mkdir d; echo n >d/n`)
		commitAll(t, s)
		wantSame(t, look(t, root), saw)
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
	_, err := Create(Options{Roots: []string{project(t, ``)}, Dir: dir + "/state", Engine: EngineOverlay})
	if !errors.Is(err, errNoTypes) {
		t.Errorf("with an overlay: %v", err)
	}
}

// A file system without Unix modes and names can still hold a session's storage, and a project on it is copied.
func TestFAT(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	dir := tempDir(t)
	testenv.Tree(t, dir, "fat/")
	mkfs := exec.Command("sh", "-euc", `truncate -s 64M img; PATH=$PATH:/sbin:/usr/sbin mkfs.vfat img; mount -o loop,umask=077 img fat`)
	mkfs.Dir = dir
	if out, err := mkfs.CombinedOutput(); err != nil {
		testenv.Skip(t, "vfat", string(out))
	}
	t.Cleanup(func() { _ = unix.Unmount(dir+"/fat", unix.MNT_DETACH) })
	testenv.Tree(t, dir, "fat/project/", "fat/project/f: a", "fat/project/d/g: a")
	for _, tt := range []struct {
		root, state string
		want        Engine
	}{
		{project(t, `echo a > f; mkdir d; echo a > d/g`), dir + "/fat/state", withoutUpper()},
		{dir + "/fat/project", dir + "/state", EngineCopy},
		{dir + "/fat/project", dir + "/fat/state", EngineCopy},
	} {
		s, err := Create(Options{Roots: []string{tt.root}, Dir: tt.state})
		if err != nil {
			t.Fatal(err)
		}
		if e := s.Info().Engine; e != tt.want {
			t.Errorf("engine %s, want %s", e, tt.want)
		}
		sandbox(t, s, `echo b > f; rm -r d; mkdir n; echo n > n/n`)
		wantChanges(t, s, "D d/", "M f", "A n/", "A n/n")
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
	// The steps of its clock are two seconds long: what was changed right after the beginning is a conflict, and
	// nothing else is.
	outside(t, dir+"/fat/project", `echo a >late; echo a >before`)
	s, err := Create(Options{Roots: []string{dir + "/fat/project"}, Dir: dir + "/state"})
	if err != nil {
		t.Fatal(err)
	}
	outside(t, dir+"/fat/project", `echo mine >late`)
	sandbox(t, s, `echo b >late; echo b >before`)
	err = s.Commit(t.Context())
	if ce, ok := errors.AsType[*ConflictError](err); !ok || len(ce.Conflicts) != 1 || ce.Conflicts[0].Path != "late" {
		t.Errorf("changed right after the beginning: %v", err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
}
