//go:build linux

package overlay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Attacks on what is done with a session after its command: looking at changes, reading
// their contents, committing. The sandboxed side owns the upper directory, and may own
// the project. Each attack has a control that shows that it works on who does the
// same thing in the obvious way. The numbers are those of the list of attacks that
// the project keeps.

// hasty runs something that must not wait for an attacker.
func hasty(t testing.TB, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	limit := time.NewTimer(testenv.Patience)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		panic(what + " hangs") // for the stacks
	}
}

// swapper exchanges two names until it is stopped; that one of them is gone is none of
// its business.
func swapper(a, b string) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				_ = unix.Nanosleep(&unix.Timespec{Nsec: 5_000}, nil)
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// decoys are what an attacker puts in the place of something.
var decoys = []struct {
	name string
	make func(t testing.TB, p, victim string)
}{
	{"link to a directory", func(t testing.TB, p, victim string) { relink(t, victim, p) }},
	{"link to a file", func(t testing.TB, p, victim string) { relink(t, victim+"/f", p) }},
	{"FIFO", func(t testing.TB, p, _ string) {
		if err := unix.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
	}},
	{"huge file", func(t testing.TB, p, _ string) {
		if err := errors.Join(os.WriteFile(p, []byte("x"), 0o644), os.Truncate(p, 1<<40)); err != nil {
			t.Fatal(err)
		}
	}},
	{"directory", func(t testing.TB, p, _ string) { testenv.Tree(t, p, "f: decoy", "sub/y: decoy") }},
}

func relink(t testing.TB, text, p string) {
	t.Helper()
	if err := os.Symlink(text, p); err != nil {
		t.Fatal(err)
	}
}

// secrets lists the files below dir that hold what only the victim has; links are not
// followed.
func secrets(t testing.TB, dir string) (list []string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text := head(p); strings.Contains(text, "secret") {
				list = append(list, p)
			}
		}
		return nil
	})
	return list
}

// head is the beginning of a file.
func head(p string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	return headOf(f)
}

func headOf(f *os.File) string {
	buf := make([]byte, 4096)
	n, _ := io.ReadFull(f, buf)
	return string(buf[:n])
}

// readAll looks at everything as a diff does, and returns the beginnings of all files.
func readAll(s *Session) (texts []string) {
	for c, err := range s.Changes() {
		if err != nil {
			continue
		}
		for _, side := range []Side{Before, After} {
			if f, err := s.File(c, side); err == nil {
				texts = append(texts, headOf(f))
				f.Close()
			}
			_, _ = s.Link(c, side)
		}
		for _, err := range s.Below(c) {
			if err != nil {
				break
			}
		}
	}
	return texts
}

// TestAttack27Whiteout: a whiteout below what became a symbolic link deletes nothing
// behind the link, and a new file is written to nothing behind it.
func TestAttack27Whiteout(t *testing.T) {
	testenv.Leaks(t)
	for _, tt := range []struct{ name, where, swap string }{
		{"parent in the project", "project", `mv d old; ln -s "$VICTIM" d`},
		{"grandparent in the project", "project", `mv top old; ln -s "$VICTIM/.." top`},
		{"parent in the upper directory", "upper", `mv d old; ln -s "$VICTIM" d`},
		{"dots in the upper directory", "upper", `mv d old; ln -s .. d`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := project(t, `mkdir d; for f in f g new; do printf secret > d/$f; done`)
			victim := filepath.Join(base, "d")
			before := testenv.Listing(t, victim)
			root := project(t, `mkdir -p d top/d; for f in f g; do printf 1 > d/$f; printf 1 > top/d/$f; done; printf 1 > h`)
			s := create(t, root)
			sandbox(t, s, `rm d/f top/d/f; printf 22 > d/g; printf 22 > d/new; printf 22 > top/d/g; rm h`)
			where := root
			if tt.where == "upper" {
				where = s.Roots()[0].Upper
			}
			outside(t, where, "VICTIM="+victim+"; "+tt.swap)
			// Control: who reads by path reads it.
			p := filepath.Join(where, "d/g")
			if strings.HasPrefix(tt.name, "grand") {
				p = filepath.Join(where, "top/d/g")
			}
			if text := head(p); !strings.HasSuffix(tt.swap, ".. d") && text != "secret" {
				t.Errorf("the control read %q", text)
			}
			// Links are changes or obstacles; they are never followed.
			hasty(t, "a commit", func() {
				if texts := readAll(s); slices.Contains(texts, "secret") {
					t.Error("a file of somebody else's was read")
				}
				err := s.Commit(context.Background())
				t.Log(err)
			})
			if d := testenv.Difference(t, victim, before); d != "" {
				t.Errorf("changed: %s", d)
			}
			if list := secrets(t, root); len(list) > 0 {
				t.Errorf("in the project now: %q", list)
			}
			if tt.where == "upper" {
				return
			}
			// Control: who deletes by path deletes the victim's.
			if err := errors.Join(os.RemoveAll(filepath.Join(root, "d/f")), os.RemoveAll(filepath.Join(root, "top/d/f"))); err != nil {
				t.Error(err)
			}
			if testenv.Difference(t, victim, before) == "" {
				t.Error("the control deleted nothing")
			}
		})
	}
}

// TestAttack28Swapper: whatever is exchanged while changes are listed, read and committed, nothing outside is read or
// written, and nothing hangs. What was not exchanged is as before or as committed.
func TestAttack28Swapper(t *testing.T) {
	testenv.Leaks(t)
	rounds := testenv.Rounds(4, 200)
	for _, side := range []string{"project", "upper"} {
		for _, target := range []string{"d", "d/e", "d/e/f", "x", "d/e/gone"} {
			for _, decoy := range decoys {
				if target == "d/e/gone" && side == "upper" {
					continue // it is a whiteout there
				}
				t.Run(side+" "+target+" and a "+decoy.name, func(t *testing.T) {
					testenv.TakeTurns(t)
					raceOnce(t, rounds, side, target, decoy.make)
				})
			}
		}
	}
}

func raceOnce(t *testing.T, rounds int, side, target string, decoy func(t testing.TB, p, victim string)) {
	victim := testenv.Dir(t)
	testenv.Tree(t, victim, "f: secret", "n: secret", "y: secret", "gone: secret", "e/f: secret", "e/n: secret", "e/gone: secret", "sub/y: secret")
	before := testenv.Listing(t, victim)
	done, refused, half := 0, 0, 0
	for range rounds {
		root := filepath.Join(tempDir(t), "project")
		testenv.Tree(t, root, "d/e/f: 1", "d/e/g: 1", "d/e/gone: 1", "a: 1", "z/k: 1")
		s := create(t, root)
		up := s.Roots()[0].Upper
		testenv.Tree(t, up, "d/e/f: 22", "d/e/n: 22", "x/y: 22", "x/sub/y: 22", "a: 22", "z/k: 22")
		if err := unix.Mknod(filepath.Join(up, "d/e/gone"), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err) // whiteouts everybody may make
		}
		where := root
		if side == "upper" {
			where = up
		}
		p := filepath.Join(where, target)
		if _, err := os.Lstat(p); err != nil { // the new directory, in the project
			testenv.Tree(t, where, target+"/own: 1")
		}
		decoy(t, p+"-decoy", victim)
		var err error
		hasty(t, "a commit", func() {
			defer swapper(p, p+"-decoy")()
			for range 3 {
				if texts := readAll(s); slices.Contains(texts, "secret") {
					t.Error("a file of somebody else's was read")
				}
			}
			err = s.Commit(context.Background())
		})
		a, k := head(filepath.Join(root, "a")), head(filepath.Join(root, "z/k"))
		partial := new(CommitError)
		switch {
		case err == nil:
			done++
			if a != "22" || k != "22" {
				t.Errorf("committed, and there is %q and %q", a, k)
			}
		case errors.As(err, &partial):
			half++
			if a != k {
				t.Errorf("%v, and there is %q and %q", err, a, k)
			}
		default:
			refused++
			if a != "1" || k != "1" {
				t.Errorf("%v, and there is %q and %q", err, a, k)
			}
		}
		if d := testenv.Difference(t, victim, before); d != "" {
			t.Fatalf("changed: %s", d)
		}
		if list := secrets(t, root); len(list) > 0 {
			t.Fatalf("in the project now: %q", list)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d commits, %d refused, %d half done", done, refused, half)
}

// TestAttack28Control: a program that looks at a name and then uses it is fooled by the swapper.
func TestAttack28Control(t *testing.T) {
	testenv.Leaks(t)
	dir, victim := testenv.Dir(t), testenv.Dir(t)
	testenv.Tree(t, dir, "f: 1")
	testenv.Tree(t, victim, "f: secret")
	relink(t, victim+"/f", filepath.Join(dir, "link"))
	p := filepath.Join(dir, "f")
	defer swapper(p, filepath.Join(dir, "link"))()
	testenv.Fooled(t, func() bool {
		st, err := os.Lstat(p)
		return err == nil && st.Mode().IsRegular()
	}, func() bool {
		b, _ := os.ReadFile(p)
		return string(b) == "secret"
	})
}

// TestAttack28Lease: a lease on a file delays nobody.
func TestAttack28Lease(t *testing.T) {
	testenv.Leaks(t)
	for _, side := range []string{"project", "upper"} {
		t.Run(side, func(t *testing.T) {
			root := project(t, `printf 11 > f; printf 1 > g`)
			s := create(t, root)
			testenv.Tree(t, s.Roots()[0].Upper, "f: 22", "g: 2")
			p := filepath.Join(root, "f")
			if side == "upper" {
				p = filepath.Join(s.Roots()[0].Upper, "f")
			}
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
				testenv.Skip(t, "lease", err.Error())
			}
			// Control: it is there, and who does not say that he will not wait waits.
			if fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != unix.EAGAIN {
				t.Errorf("open: %d, %v", fd, err)
			}
			began := time.Now()
			hasty(t, "a commit", func() {
				readAll(s)
				if err := s.Commit(context.Background()); err == nil && side == "upper" {
					t.Error("committed what could not be read")
				}
			})
			if d := time.Since(began); d > 40*time.Second { // who has a lease may keep it for 45
				t.Errorf("it took %v", d)
			}
			if s.State() == Committed {
				return
			}
			if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
				t.Fatal(err)
			}
			if got := head(filepath.Join(root, "g")); got != "1" {
				t.Errorf("half a commit: %q", got)
			}
			commitAll(t, s)
		})
	}
}

// TestAttack29Opaque: files that were removed from a directory do not come back, and files stay in a directory that
// only got new ones.
func TestAttack29Opaque(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `for d in emptied added nested/in; do mkdir -p $d/sub; printf stale > $d/stale; printf stale > $d/sub/stale; done`)
	s := create(t, root)
	want := sandbox(t, s, `rm -r emptied; mkdir emptied; printf n > emptied/new; printf n > added/new; rm -r nested; mkdir -p nested/in/sub; printf n > nested/in/sub/new`)
	// Control: the obvious way of taking over the upper directory leaves it all.
	copied := project(t, `cp -a `+root+`/. .; cp -a `+s.Roots()[0].Upper+`/. .`)
	if _, err := os.Stat(filepath.Join(copied, "emptied/stale")); err != nil {
		t.Errorf("the control: %v", err)
	}
	commitAll(t, s)
	wantSame(t, look(t, root), want)
	for _, p := range []string{"emptied/stale", "emptied/sub", "nested/in/stale", "nested/in/sub/stale"} {
		if _, err := os.Lstat(filepath.Join(root, p)); err == nil {
			t.Errorf("%s is there again", p)
		}
	}
	for _, p := range []string{"added/stale", "added/sub/stale", "added/new"} {
		if _, err := os.Lstat(filepath.Join(root, p)); err != nil {
			t.Error(err)
		}
	}
}

// overlayMarks are attributes with which an overlay says where an object's content or
// name comes from.
var overlayMarks = []op{
	{B: "user.overlay.opaque", Text: "y"}, {B: "user.overlay.opaque", Text: "x"}, {B: "user.overlay.redirect", Text: "/secret"}, {B: "user.overlay.redirect", Text: "../../secret"},
	{B: "user.overlay.metacopy", Text: ""}, {B: "user.overlay.whiteout", Text: "y"}, {B: "user.overlay.origin", Text: "\x00\xfb\x1d\x00\x01"},
	{B: "user.overlay.impure", Text: "y"}, {B: "user.overlay.nlink", Text: "U+7"}, {B: "user.overlay.overlay.opaque", Text: "y"},
	{B: "trusted.overlay.opaque", Text: "y"}, {B: "trusted.overlay.redirect", Text: "/secret"},
}

// TestAttack30Inside: marks that the sandboxed side sets do not mean anything. What is
// committed is what it saw.
func TestAttack30Inside(t *testing.T) {
	testenv.Leaks(t)
	w := startWorker(t)
	for _, mark := range overlayMarks {
		t.Run(mark.B+"="+fmt.Sprintf("%q", mark.Text), func(t *testing.T) {
			build, run := markOps(mark, false)
			root := filepath.Join(tempDir(t), "project")
			testenv.Tree(t, root, "d/")
			before := w.must(t, job{Build: build, Roots: []string{root}}).Seen
			s := create(t, root)
			seen := w.must(t, job{Mounts: s.Mounts(), Roots: []string{root}, Ops: run}).Seen
			set, err := s.changeSet()
			if err != nil {
				t.Fatal(err)
			}
			commitAll(t, s)
			project := w.see(t, root)
			for _, v := range []view{project, seen} {
				for k, o := range v {
					for name := range o.Xattrs {
						if strings.HasPrefix(name, tree.OverlayPrefix) {
							delete(o.Xattrs, name) // no attribute of a project
						}
					}
					v[k] = o
				}
			}
			for _, l := range set.committed(project, seen, before, true) {
				t.Error(l)
			}
			if project["0/d/old"].Size != 3 || project["0/d/sub/old"].Size != 3 {
				t.Errorf("old files are gone; changes were %q", set.lines)
			}
		})
	}
}

// markOps makes a project, and sets a mark on the files in it and on new ones.
func markOps(mark op, lower bool) (build, run []op) {
	build = []op{{Do: "create", A: "0/secret", Text: "secret"}, {Do: "mkdir", A: "0/d", N: 0o755}, {Do: "create", A: "0/d/old", Text: "old"}, {Do: "mkdir", A: "0/d/sub", N: 0o755},
		{Do: "create", A: "0/d/sub/old", Text: "old"}, {Do: "create", A: "0/d/none"}}
	run = []op{{Do: "create", A: "0/d/new", Text: "new"}, {Do: "mkdir", A: "0/d/newdir", N: 0o755}, {Do: "create", A: "0/d/newdir/in", Text: "in"}, {Do: "create", A: "0/d/zero"},
		{Do: "append", A: "0/d/old", Text: ""}, {Do: "chmod", A: "0/d/sub/old", N: 0o600}}
	marks := []op{}
	for _, p := range []string{"0/d", "0/d/old", "0/d/sub", "0/d/sub/old", "0/d/none", "0/d/new", "0/d/newdir", "0/d/newdir/in", "0/d/zero"} {
		marks = append(marks, op{Do: "setxattr", A: p, B: mark.B, Text: mark.Text})
	}
	if lower {
		return append(build, marks...), run
	}
	return build, append(run, marks...)
}

// TestAttack30Upper: marks that got into the upper directory in some other way are
// refused, or mean what they mean to the overlay that the sandbox has; never does
// anything come from elsewhere.
func TestAttack30Upper(t *testing.T) {
	testenv.Leaks(t)
	honoured := false
	for _, mark := range overlayMarks {
		for _, target := range []string{"d", "d/f", "d/zero", "new", "newdir"} {
			root := project(t, `mkdir -p d/sub; printf 1 > d/f; printf 1 > d/sub/g; : > d/zero; mkdir secret; printf secret > secret/s`)
			s := create(t, root)
			up := s.Roots()[0].Upper
			testenv.Tree(t, up, "d/f: 22", "d/zero", "new: 22", "newdir/in: 22")
			if err := unix.Setxattr(filepath.Join(up, target), mark.B, []byte(mark.Text), 0); err != nil {
				continue // trusted ones are for root
			}
			var list []string
			for c, err := range s.Changes() {
				if err == nil {
					list = append(list, c.String())
				}
			}
			err := s.Commit(context.Background())
			if err != nil {
				if !errors.Is(err, tree.ErrLayer) && !errors.Is(err, ErrNoChange) {
					t.Errorf("%s of %s: %v", mark.B, target, err)
				}
				if got := head(filepath.Join(root, "d/f")); got != "1" {
					t.Errorf("%s of %s: %v, and yet there is %q", mark.B, target, err, got)
				}
				continue
			}
			if found := secrets(t, root); len(found) != 1 {
				t.Errorf("%s of %s: secrets at %q", mark.B, target, found)
			}
			// The control: what a session really does with marks, it does here.
			if mark.B == "user.overlay.opaque" && mark.Text == "y" && target == "d" {
				honoured = slices.Contains(list, "D d/sub/")
			} else if _, err := os.Stat(filepath.Join(root, "d/sub/g")); err != nil {
				t.Errorf("%s=%s of %s: %v; changes were %q", mark.B, mark.Text, target, err, list)
			}
		}
	}
	if !honoured {
		t.Error("the control: the kernel ignores the mark of an opaque directory")
	}
}

// TestAttack30Lower: marks on the project itself. They may hide something from the
// sandbox, but nothing is committed that it did not do.
func TestAttack30Lower(t *testing.T) {
	testenv.Leaks(t)
	w := startWorker(t)
	for _, mark := range overlayMarks {
		t.Run(mark.B+"="+fmt.Sprintf("%q", mark.Text), func(t *testing.T) {
			build, run := markOps(mark, true)
			root := filepath.Join(tempDir(t), "project")
			testenv.Tree(t, root, "d/")
			before := w.must(t, job{Build: build, Roots: []string{root}}).Seen
			s := create(t, root)
			w.must(t, job{Mounts: s.Mounts(), Roots: []string{root}, Ops: run, Blind: true})
			hasty(t, "a commit", func() {
				if err := s.Commit(context.Background()); errors.Is(err, tree.ErrLayer) && !strings.Contains(err.Error(), "setfattr -x") {
					t.Errorf("it does not say what to do: %v", err)
				}
			})
			project := w.see(t, root)
			for k, o := range before {
				switch got, ok := project[k]; {
				case !ok:
					t.Errorf("%s is gone", k)
				case k != "0/d/sub/old" && got.what() != o.what():
					t.Errorf("%s is %s\n\twas %s", k, got.what(), o.what())
				}
			}
			for k, o := range project {
				if o.Sum == before["0/secret"].Sum && k != "0/secret" {
					t.Errorf("%s has the secret", k)
				}
			}
		})
	}
}

// TestAttack33Sparse: files larger than any disk cost what is in them.
func TestAttack33Sparse(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `truncate -s 1T both; printf x >> both; truncate -s 1T grows`)
	s := create(t, root)
	up := s.Roots()[0].Upper
	for _, name := range []string{"both", "grows", "new"} {
		f, err := os.Create(filepath.Join(up, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(1 << 40); err != nil {
			testenv.Skip(t, "large files", err.Error())
		}
		if _, err := f.WriteAt([]byte("x"), 1<<40); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	// Control: the disk has no room for an obvious copy.
	var disk unix.Statfs_t
	if err := unix.Statfs(up, &disk); err != nil || disk.Bavail*uint64(disk.Bsize) > 1<<40 {
		t.Logf("the disk has room for all: %d blocks, %v", disk.Bavail, err)
	}
	hasty(t, "a comparison", func() { wantChanges(t, s, "M grows", "A new") })
	hasty(t, "a commit", func() { commitAll(t, s) })
	for _, name := range []string{"both", "grows", "new"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(root, name), &st); err != nil || st.Size != 1<<40+1 || st.Blocks > 1000 {
			t.Errorf("%s: %d bytes in %d blocks, %v", name, st.Size, st.Blocks, err)
		}
	}
}

// TestAttack33Endless: a file that grows while it is read is committed as it was, or not
// at all.
func TestAttack33Endless(t *testing.T) {
	testenv.Leaks(t)
	for _, how := range []string{"append", "rewrite"} {
		t.Run(how, func(t *testing.T) {
			root := project(t, `printf 1 > f; printf 1 > g`)
			s := create(t, root)
			up := s.Roots()[0].Upper
			testenv.Tree(t, up, "f: 22", "g: 22")
			f, err := os.OpenFile(filepath.Join(up, "f"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			quit := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				block := make([]byte, 1<<16)
				for n := int64(0); ; n++ {
					select {
					case <-quit:
						return
					default:
						if how == "rewrite" {
							n %= 64
						} else if n > 1<<12 {
							return
						}
						_, _ = f.WriteAt(block, n<<16)
					}
				}
			})
			stop := sync.OnceFunc(func() { close(quit); wg.Wait() })
			defer stop()
			var list []error
			hasty(t, "a commit", func() {
				for range 5 {
					readAll(s)
					err := s.Commit(context.Background())
					list = append(list, err)
					if err == nil {
						break
					}
					if got := head(filepath.Join(root, "g")); got != "1" {
						t.Errorf("%v, and there is %q", err, got)
					}
				}
			})
			stop()
			t.Log(list)
			if s.State() != Committed {
				commitAll(t, s)
			}
		})
	}
}

// TestAttack33Many: a directory with very many entries. With NSRUN_LONG there are a
// million.
func TestAttack33Many(t *testing.T) {
	testenv.Leaks(t)
	count := 2_000
	if testenv.Long() {
		count = 1_000_000
	}
	root := project(t, `mkdir d; printf 1 > d/last; printf 1 > f`)
	s := create(t, root)
	up := s.Roots()[0].Upper
	testenv.Tree(t, up, "d/", "f: 22")
	first := filepath.Join(up, "d/0")
	if err := os.WriteFile(first, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < count; i++ {
		name := filepath.Join(up, "d", fmt.Sprint(i))
		var err error
		if i%60000 == 0 {
			first = name
			err = os.WriteFile(name, []byte("x"), 0o644)
		} else { // links cost no blocks
			err = os.Link(first, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != count+1 {
		t.Errorf("%d changes, want %d", n, count+1)
	}
	commitAll(t, s)
	names, err := os.ReadDir(filepath.Join(root, "d"))
	if err != nil || len(names) != count+1 {
		t.Errorf("%d names, %v", len(names), err)
	}
}

// TestAttack34SetUserID: files that give rights to their users are not committed unless that was asked for:
// setuid, setgid, capabilities; made in the sandbox, or copied up from the project (CVE-2023-0386 and its relatives).
func TestAttack34SetUserID(t *testing.T) {
	testenv.Leaks(t)
	w := startWorker(t)
	capability := string(binary.LittleEndian.AppendUint32(nil, 0x02000001)) + strings.Repeat("\xff\x00\x00\x00\x00\x00\x00\x00", 2)
	for _, tt := range []struct {
		name  string
		build []op
		run   []op
		bits  uint32
	}{
		{"new and setuid", nil, []op{{Do: "create", A: "0/x", Text: "1"}, {Do: "chmod", A: "0/x", N: 0o4755}}, 0o4000},
		{"in a new directory", nil, []op{{Do: "mkdir", A: "0/n", N: 0o755}, {Do: "create", A: "0/n/x", Text: "1"}, {Do: "chmod", A: "0/n/x", N: 0o4755}, {Do: "rename", A: "0/n", B: "0/x"}}, 0o4000},
		{"becomes setuid", []op{{Do: "create", A: "0/x", Text: "1"}}, []op{{Do: "chmod", A: "0/x", N: 0o4755}}, 0o4000},
		{"replaced by setuid", []op{{Do: "create", A: "0/x", Text: "1"}}, []op{{Do: "create", A: "0/y", Text: "1"}, {Do: "chmod", A: "0/y", N: 0o4711}, {Do: "rename", A: "0/y", B: "0/x"}}, 0o4000},
		{"linked", nil, []op{{Do: "create", A: "0/y", Text: "1"}, {Do: "link", A: "0/y", B: "0/x"}, {Do: "chmod", A: "0/y", N: 0o4755}}, 0o4000},
		{"copied up", []op{{Do: "create", A: "0/y", Text: "1"}, {Do: "chmod", A: "0/y", N: 0o4755}}, []op{{Do: "rename", A: "0/y", B: "0/x"}}, 0o4000},
		{"copied up in a directory", []op{{Do: "mkdir", A: "0/d", N: 0o755}, {Do: "create", A: "0/d/y", Text: "1"}, {Do: "chmod", A: "0/d/y", N: 0o4755}}, []op{{Do: "rename", A: "0/d", B: "0/x"}}, 0o4000},
		{"FIFO", nil, []op{{Do: "fifo", A: "0/x"}, {Do: "chmod", A: "0/x", N: 0o4755}}, 0o4000},
		{"capabilities", nil, []op{{Do: "create", A: "0/x", Text: "1"}, {Do: "setxattr", A: "0/x", B: tree.CapabilityXattr, Text: capability}}, 0},
		{"gets capabilities", []op{{Do: "create", A: "0/x", Text: "1"}}, []op{{Do: "setxattr", A: "0/x", B: tree.CapabilityXattr, Text: capability}, {Do: "append", A: "0/a", Text: "x"}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := filepath.Join(tempDir(t), "project")
			testenv.Tree(t, root, "a: 1")
			before := w.must(t, job{Build: append([]op{{Do: "create", A: "0/a", Text: "1"}}, tt.build...), Roots: []string{root}}).Seen
			s := create(t, root)
			r := w.must(t, job{Mounts: s.Mounts(), Roots: []string{root}, Ops: append([]op{{Do: "create", A: "0/a", Text: "2"}}, tt.run...)})
			for i, o := range r.Outcomes {
				if o.Errno != 0 {
					t.Fatalf("operation %d: %v", i, o.Errno)
				}
			}
			err := s.Commit(context.Background())
			if tt.name == "gets capabilities" && err == nil {
				// A file that differs in them alone is not a change.
				if x := w.see(t, root)["0/x"]; x.Xattrs[tree.CapabilityXattr] != "" {
					t.Error("it got them")
				}
				return
			}
			if !errors.As(err, new(*SpecialError)) {
				t.Errorf("got %v", err)
			}
			for _, l := range (compared{got: w.see(t, root), want: before}).differences() {
				t.Error(l)
			}
			// Control: the sandbox really has it.
			got := false
			for _, o := range r.Seen {
				got = got || tt.bits != 0 && o.Mode&tt.bits != 0 || o.Xattrs[tree.CapabilityXattr] != ""
			}
			if !got {
				t.Error("the control: no change is special")
			}
			if tt.build == nil {
				commitAll(t, s, "a") // the rest is not held up
			}
		})
	}
}

// TestAttack36SharedUpper: of two programs that use one session's upper directory, one is refused, whatever it wants to
// do.
func TestAttack36SharedUpper(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f`)
	s := create(t, root)
	state := filepath.Dir(s.Dir())
	for range 3 {
		if other, err := Open(state, s.ID()); !errors.Is(err, ErrBusy) {
			t.Errorf("opened twice: %v", err)
			other.Close()
		}
	}
	// Of many at once one has it.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var wg sync.WaitGroup
		list := make([]*Session, 8)
		for i := range list {
			wg.Go(func() {
				var err error
				if list[i], err = Open(state, s.ID()); err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		n := 0
		for _, o := range list {
			if o != nil {
				n++
				o.Close()
			}
		}
		if n != 1 {
			t.Fatalf("%d have it", n)
		}
	}
	// Control: the kernel itself lets two overlays have one upper directory, here in two
	// mount namespaces.
	skipMissing(t, features.Get(features.Overlay).Err())
	a, b := startWorker(t), startWorker(t)
	o, err := Open(state, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, w := range []*worker{a, b} {
		if _, err := w.do(job{Mounts: o.Mounts(), Roots: []string{root}, Ops: []op{{Do: "append", A: "0/f", Text: "x"}}}); err != nil {
			t.Log(err)
		}
	}
	if got := head(filepath.Join(s.Roots()[0].Upper, "f")); got != "1xx" {
		t.Errorf("the control: %q", got)
	}
}
