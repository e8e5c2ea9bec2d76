//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// noDirTimes leaves the times of directories out of what look returns.
func noDirTimes(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if head, _, ok := strings.Cut(l, " at "); ok && strings.Contains(head, "\" 4") {
			lines[i] = head
		}
	}
	return strings.Join(lines, "\n")
}

func unlink(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		head, at, ok := strings.Cut(l, " names at ")
		if ok {
			lines[i] = head[:strings.LastIndexByte(head, ' ')] + " at " + at
		}
	}
	return strings.Join(lines, "\n")
}

func TestHardLinks(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > a; printf 1 > b; ln b b2; mkdir d`)
	s := create(t, root)
	sandbox(t, s, `ln a d/a; printf 2 > n; ln n d/n; mkdir x; ln n x/n; ln x/n x/m; ln b b3`)
	wantChanges(t, s, "A b3", "A d/a", "A d/n", "A n", "A x/", "A x/m", "A x/n")
	commitAll(t, s)
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a", "d/a", true}, {"n", "d/n", true}, {"n", "x/n", true}, {"n", "x/m", true},
		{"b", "b2", true}, {"b", "b3", true}, // although in the sandbox b2 was not linked to the others
	} {
		x, err := os.Stat(filepath.Join(root, tt.a))
		y, err2 := os.Stat(filepath.Join(root, tt.b))
		if err != nil || err2 != nil || os.SameFile(x, y) != tt.want {
			t.Errorf("%s and %s: %v %v", tt.a, tt.b, err, err2)
		}
	}
}

func TestChanges(t *testing.T) {
	testenv.Leaks(t)
	const setup = `
		mkdir -p d/sub e; printf 1 > d/a; touch -d 2001-01-01 d/a; printf 2 > d/sub/b; printf 3 > e/c; printf 4 > f; printf 5 > g
		printf 6 > a.b; mkdir a; printf 7 > a/x; printf 8 > a-b; ln f h`
	for _, tt := range []struct {
		name, script string
		want         []string
	}{
		{"nothing", `true`, nil},
		{"touched", `touch f d; touch -d 2001-01-01 g`, nil},
		{"written the same", `printf 4 > f; rm g; printf 5 > g`, nil},
		{"mode there and back", `chmod 600 f; chmod 644 f; chmod 700 d; chmod 755 d`, nil},
		{"moved away and back", `mv f k; mv k f`, nil},
		{"made and removed", `printf 1 > new; mkdir nd; rm -r new nd`, nil},
		{"path order", `printf X > a.b; printf X > a/x; printf X > a-b; mkdir b; printf Y > b.c; printf Y > b/c`,
			[]string{"M a/x", "M a-b", "M a.b", "A b/", "A b/c", "A b.c"}},
		{"deleted directory is one", `rm -r d`, []string{"D d/"}},
		{"under an opaque directory", `rm -r d; mkdir d; printf n > d/n`, []string{"A d/n", "D d/a", "D d/sub/"}},
		{"below that", `rm -r d; mkdir -p d/sub/x; printf 1 > d/a; touch -d 2001-01-01 d/a`, []string{"D d/sub/b", "A d/sub/x/"}},
		{"moved directory", `mv d d2`, []string{"D d/", "A d2/", "A d2/a", "A d2/sub/", "A d2/sub/b"}},
		{"mode of the root", `chmod 700 .`, []string{"M ./"}},
		{"mode of directories", `chmod 700 d/sub; chmod 1777 e`, []string{"M d/sub/", "M e/"}},
		{"attributes", `command -v setfattr >/dev/null && setfattr -n user.x -v y f || chmod 600 f`, []string{"M f"}},
		{"new names", "touch 'a\nb' \"$(printf 'e\\033[2J')\" '\"q\"' 'back\\slash' 'sp ace'",
			[]string{`A "\"q\""`, `A "a\nb"`, `A back\slash`, `A "e\x1b[2J"`, `A sp ace`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, setup)
			s := create(t, root)
			want := sandbox(t, s, tt.script)
			slices.SortFunc(tt.want, func(a, b string) int {
				return paths.Compare(strings.TrimSuffix(a[2:], "/"), strings.TrimSuffix(b[2:], "/"))
			})
			got := changes(t, s)
			if tt.name == "new names" {
				slices.Sort(got)
				slices.Sort(tt.want)
			}
			if !slices.Equal(got, tt.want) {
				t.Fatalf("changes:\n got %q\nwant %q", got, tt.want)
			}
			if len(got) == 0 {
				return // times alone are not committed
			}
			commitAll(t, s)
			wantSame(t, unlink(look(t, root)), unlink(want))
		})
	}
}

func TestBytesAndSizes(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `
		head -c 300000 /dev/zero | tr '\0' x > big; cp big big2
		truncate -s 10G sparse; truncate -s 1M holes; printf x | dd of=holes bs=1 seek=500000 conv=notrunc 2>/dev/null`)
	s := create(t, root)
	want := sandbox(t, s, `
		printf Y | dd of=big bs=1 seek=299999 conv=notrunc 2>/dev/null
		touch sparse
		printf y | dd of=holes bs=1 seek=900000 conv=notrunc 2>/dev/null
		truncate -s 5M tail; printf z | dd of=tail bs=1 seek=4000000 conv=notrunc 2>/dev/null; truncate -s 6M tail
		rm big2; : > empty`)
	var got []string
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(c, " ", c.Size, " ", c.Mode))
	}
	if list := []string{"M big 300000 -rw-r--r--", "D big2 300000 -rw-r--r--", "A empty 0 -rw-r--r--",
		"M holes 1048576 -rw-r--r--", "A tail 6291456 -rw-r--r--"}; !slices.Equal(got, list) {
		t.Fatalf("got %q", got)
	}
	commitAll(t, s)
	// "sparse" has only another time, which is not a change.
	drop := func(s string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.HasPrefix(l, `"sparse"`) }), "\n")
	}
	wantSame(t, drop(look(t, root)), drop(want))
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "tail"), &st); err != nil || st.Blocks > 100 {
		t.Errorf("holes were filled: %d blocks, %v", st.Blocks, err)
	}
}

func TestTwoRoots(t *testing.T) {
	testenv.Leaks(t)
	a, b := project(t, `printf 1 > f; printf 1 > only-a`), project(t, `printf 1 > f; printf 1 > g`)
	s := create(t, a, b)
	want := sandbox(t, s, `printf 22 > f; cd "$ROOT2"; printf 333 > f; rm g; ln -s "$ROOT1" link`)
	var got []string
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Root+" "+c.String())
	}
	if list := []string{a + " M f", b + " M f", b + " D g", b + " A link"}; !slices.Equal(got, list) {
		t.Fatalf("got %q", got)
	}
	if err := s.Commit(context.Background(), "f"); err == nil || !strings.Contains(err.Error(), "more than one root") {
		t.Errorf("ambiguous path: %v", err)
	}
	for _, p := range []string{"only-a", "nothing", "../f", "/", "/etc/passwd", a + "x/f"} {
		if err := s.Commit(context.Background(), p); !errors.Is(err, ErrNoChange) {
			t.Errorf("path %s: %v", p, err)
		}
	}
	commitAll(t, s, filepath.Join(b, "f"), "link")
	wantChanges(t, s, "M f", "D g")
	commitAll(t, s)
	wantSame(t, look(t, a, b), want)
	if err := s.Commit(context.Background()); !errors.Is(err, ErrEnded) {
		t.Errorf("commit after the end: %v", err)
	}
	if err := s.Discard(); !errors.Is(err, ErrEnded) {
		t.Errorf("discard after the commit: %v", err)
	}
}

func TestConflicts(t *testing.T) {
	testenv.Leaks(t)
	const setup = `printf 1 > f; printf 1 > g; mkdir -p d/sub; printf 1 > d/a; printf 1 > d/sub/b; mkdir e`
	for _, tt := range []struct {
		name, inside, outside string
		want                  []string
	}{
		{"none", `printf 2 > f`, `printf 2 > g; printf 3 > d/new`, nil},
		{"both wrote", `printf 2 > f; printf 2 > g`, `printf 333 > f`, []string{"f"}},
		{"both wrote the same", `printf 2 > f; printf 2 > g`, `printf 2 > f`, nil},
		{"same size and time", `printf 2 > f`, `printf 3 > f; touch -d 2001-01-01 f`, []string{"f"}},
		{"replaced by rename", `printf 2 > f`, `mv g f`, []string{"f"}},
		{"both made", `printf 2 > n`, `printf 3 > n`, []string{"n"}},
		{"file and directory", `printf 2 > n`, `mkdir n`, []string{"n"}},
		{"deleted and written", `rm f`, `printf 2 > f`, []string{"f"}},
		{"both deleted", `rm f g`, `rm f`, nil},
		{"new in a deleted directory", `rm -r d`, `printf 2 > d/sub/n`, []string{"d/sub", "d/sub/n"}},
		{"written in a deleted directory", `rm -r d`, `printf 2 > d/sub/b`, []string{"d/sub/b"}},
		{"directory became a file", `rm -r d; printf 1 > d`, `printf 2 > d/sub/b`, []string{"d/sub/b"}},
		// Nobody noted that it was there (Preserve), and it looks as if it had been moved there.
		{"new in an emptied directory", `rm -r d; mkdir d`, `printf 2 > d/n`, []string{"d/a", "d/n", "d/sub"}},
		{"mode of a file", `printf 2 > f`, `chmod 600 f`, []string{"f"}},
		{"mode of a directory", `chmod 700 e`, `chmod 711 e`, []string{"e"}},
		{"mode of the root", `chmod 700 .`, `chmod 711 .`, []string{"."}},
		{"root replaced", `printf 2 > f`, `p=$PWD; mv "$p" "$p.old"; cp -r "$p.old" "$p"`, []string{"."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, setup)
			s := create(t, root)
			sandbox(t, s, tt.inside)
			// The clock that stamps files ticks slowly.
			untilNewer(t, s, filepath.Dir(root))
			outside(t, root, tt.outside)
			if tt.name == "root replaced" {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if s, err = Open(filepath.Dir(s.Dir()), "last"); err != nil {
					t.Fatal(err)
				}
				defer s.Close()
			}
			before := look(t, root)
			err := s.Commit(context.Background())
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var ce *ConflictError
			if !errors.As(err, &ce) {
				t.Fatalf("got %v, want a conflict", err)
			}
			var got []string
			for _, c := range ce.Conflicts {
				got = append(got, c.Path)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			wantSame(t, look(t, root), before)
			if s.State() != Kept {
				t.Errorf("state %v", s.State())
			}
		})
	}
}

// untilNewer returns when files are stamped later than the session's beginning.
func untilNewer(t testing.TB, s *Session, dir string) {
	t.Helper()
	p := filepath.Join(dir, "tick")
	for {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
		if st.ModTime().After(s.Info().Created) {
			return
		}
	}
}

func TestPartialCommit(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir -p d/sub; printf 1 > d/a; printf 1 > d/sub/b; printf 1 > f; printf 1 > g; printf 1 > h`)
	s := create(t, root)
	want := sandbox(t, s, `
		rm -r d; mkdir -p d/new/x; printf 2 > d/new/x/y; printf 2 > d/new/z
		printf 2 > f; rm g; rm h; mkdir h; printf 2 > h/i; printf 2 > h/j`)
	wantChanges(t, s, "D d/a", "A d/new/", "A d/new/x/", "A d/new/x/y", "A d/new/z", "D d/sub/",
		"M f", "D g", "T h/", "A h/i", "A h/j")
	commitAll(t, s, "d/new/x/y", "g", "h/j")
	wantChanges(t, s, "D d/a", "A d/new/z", "D d/sub/", "M f", "A h/i")

	// What was committed is the project's own from now on.
	untilNewer(t, s, filepath.Dir(root))
	outside(t, root, `printf own > d/new/x/y; printf own > g`)
	wantChanges(t, s, "D d/a", "A d/new/z", "D d/sub/", "M f", "A h/i")

	// It survives closing, and the session can be used again.
	dir := filepath.Dir(s.Dir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sandbox(t, s, `printf 3 > h/j`)
	wantChanges(t, s, "D d/a", "A d/new/z", "D d/sub/", "M f", "A h/i", "M h/j")
	commitAll(t, s, ".")
	outside(t, root, `printf 2 > d/new/x/y; rm g; printf 2 > h/j`)
	noTime := func(s string) string {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			lines[i], _, _ = strings.Cut(l, " at ")
		}
		return strings.Join(lines, "\n")
	}
	wantSame(t, noTime(look(t, root)), noTime(want))
	if s.State() != Committed {
		t.Errorf("state %v", s.State())
	}
}

// TestHoldSpecial: what is special is held back one by one, and stays in the session.
func TestHoldSpecial(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f; mkdir d`)
	s := create(t, root)
	sandbox(t, s, `printf 2 > f; cp f suid; chmod 4755 suid; mkfifo p; mkdir n only sub; mkfifo n/p only/p; printf 3 > n/f; chmod u+s sub; printf 4 > sub/f; chmod u+s d; printf 5 > d/f; printf 6 > .envrc`)
	o := CommitOptions{HoldSpecial: true}
	if err := s.CommitWith(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Held() {
		got = append(got, c.Path+" "+cmp.Or(c.Runs, c.Special))
	}
	slices.Sort(got)
	if want := []string{".envrc direnv", "d is setuid", "n/p is a FIFO", "only/p is a FIFO", "p is a FIFO", "sub is setuid", "suid is setuid"}; !slices.Equal(got, want) {
		t.Errorf("held: %q", got)
	}
	for name, want := range map[string]bool{"f": true, "d/f": true, "n/f": true, "p": false, "n/p": false, "only/p": false, "suid": false, "sub": false, ".envrc": false} {
		if _, err := os.Lstat(filepath.Join(root, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fi, err := os.Lstat(filepath.Join(root, "d")); err != nil || fi.Mode()&os.ModeSetuid != 0 {
		t.Errorf("d: %v, %v", fi, err)
	}
	var he *HeldError
	if err := s.CommitWith(context.Background(), o); !errors.As(err, &he) || len(he.Changes) != 7 || !strings.Contains(err.Error(), "p (is a FIFO)") || !strings.HasSuffix(err.Error(), "; AllowExec and AllowSpecial commit them") {
		t.Errorf("the error for a session with held changes only: %v", err)
	}
	var se *SpecialError
	if err := s.CommitWith(context.Background(), CommitOptions{AllowExec: true}); !errors.As(err, &se) {
		t.Errorf("without: %v", err)
	}
	o.AllowSpecial, o.AllowExec = true, true
	if err := s.CommitWith(context.Background(), o); err != nil || s.State() != Committed || s.Held() != nil {
		t.Errorf("with AllowSpecial: %v, %v", err, s.State())
	}
}

func TestSpecials(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f; mkdir d`)
	s := create(t, root)
	sandbox(t, s, `printf 2 > f; cp f suid; chmod 4755 suid; cp f sgid; chmod 2755 sgid; chmod 2755 d; mkdir n; cp suid n/s; chmod u+s n/s; mkfifo n/p; mkfifo p`)
	if err := unix.Mknod(filepath.Join(s.Roots()[0].Upper, "n", "k"), unix.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	want := []string{"n/k is a socket", "n/p is a FIFO", "n/s is setuid", "p is a FIFO", "sgid is setgid", "suid is setuid"}
	if os.Geteuid() == 0 {
		err := unix.Mknod(filepath.Join(s.Roots()[0].Upper, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		if err == nil {
			want = slices.Insert(want, 3, "null is a device node")
		}
	}
	before := look(t, root)
	err := s.Commit(context.Background())
	var se *SpecialError
	if !errors.As(err, &se) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, x := range se.Specials {
		got = append(got, x.Path+" "+x.Why)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	wantSame(t, look(t, root), before)
	commitAll(t, s, "f", "d")
	if err := s.Commit(context.Background(), "p"); !errors.As(err, &se) || len(se.Specials) != 1 {
		t.Errorf("a FIFO by its name: %v", err)
	}
	if err := s.CommitWith(context.Background(), CommitOptions{Paths: []string{"p", "n/k"}, AllowSpecial: true}); err != nil {
		t.Error(err)
	}
	// One that is there already may change.
	if err := os.Chmod(filepath.Join(s.Roots()[0].Upper, "p"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(context.Background(), "p"); err != nil {
		t.Error(err)
	}
	st, err := os.Stat(filepath.Join(root, "d"))
	if err != nil || st.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("directory: %v, %v", st.Mode(), err)
	}
}

// TestSwapped lets somebody exchange things between comparing and committing.
func TestSwapped(t *testing.T) {
	testenv.Leaks(t)
	const setup = `mkdir -p d/sub; printf 1 > d/sub/f; printf 1 > g`
	const script = `printf 22 > d/sub/f; printf 22 > d/sub/n; printf 22 > g; mkdir x; printf 22 > x/y`
	for _, tt := range []struct {
		name     string
		upper    bool
		swap     string
		conflict bool
	}{
		{"upper directory becomes a link", true, `mv d/sub d/old; ln -s "$VICTIM" d/sub`, false},
		{"upper parent becomes a link", true, `mv d old; ln -s "$VICTIM" d`, false},
		{"upper file becomes a link", true, `rm g; ln -s "$VICTIM/f" g`, false},
		{"upper file becomes a FIFO", true, `rm g; mkfifo g`, false},
		{"upper file becomes another", true, `rm g; printf 44 > g`, false},
		{"new directory becomes a link", true, `mv x old; ln -s "$VICTIM" x`, false},
		{"project directory becomes a link", false, `mv d/sub d/old; ln -s "$VICTIM" d/sub`, true},
		{"project parent becomes a link", false, `mv d old; ln -s "$VICTIM" d`, true},
		{"project file becomes a link", false, `rm g; ln -s "$VICTIM/f" g`, true},
		{"project file is saved", false, `printf 55 > g`, true},
		{"project file goes away", false, `rm g`, true},
		{"new file is there", false, `printf 55 > d/sub/n`, true},
		{"new directory is there", false, `mkdir x`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			victim := project(t, `printf secret > f; printf secret > y; mkdir sub; printf secret > sub/f`)
			root := project(t, setup)
			s := create(t, root)
			sandbox(t, s, script)
			c := newCommit(s, CommitOptions{})
			defer c.close()
			if err := c.beginTurn(); err != nil {
				t.Fatal(err)
			}
			if err := c.find(context.Background()); err != nil {
				t.Fatal(err)
			}
			untilNewer(t, s, victim)
			where := root
			if tt.upper {
				where = s.Roots()[0].Upper
			}
			outside(t, where, "VICTIM="+victim+"; "+tt.swap)
			was, wasVictim := look(t, root), look(t, victim)
			err := public(c.run(context.Background()))
			var ce *ConflictError
			var partial *CommitError
			if err == nil || errors.As(err, &partial) || errors.As(err, &ce) != tt.conflict {
				t.Errorf("got %v", err)
			}
			// What was staged and taken back gave directories the times from before.
			wantSame(t, noDirTimes(look(t, root)), noDirTimes(was))
			wantSame(t, look(t, victim), wasVictim)
			// The failure was not ours to remember as a conflict: put right what
			// was swapped in the project, and it works.
			if strings.Contains(tt.swap, `"$VICTIM" d`) && !tt.upper {
				outside(t, root, `[ ! -L d ] || { rm d; mv old d; }; [ ! -L d/sub ] || { rm d/sub; mv d/old d/sub; }`)
				commitAll(t, s, "g")
			}
		})
	}
}

// TestSwapper commits while somebody exchanges directories of the project and of
// the session for links to other places, all the time.
func TestSwapper(t *testing.T) {
	testenv.Leaks(t)
	for _, side := range []string{"project", "upper"} {
		t.Run(side, func(t *testing.T) {
			victim := project(t, `printf secret > f; printf secret > g`)
			before := look(t, victim)
			done, refused, half := 0, 0, 0
			for range testenv.Rounds(12, 40) {
				root := project(t, `mkdir -p d/e; printf 1 > d/e/f; printf 1 > d/e/g`)
				s := create(t, root)
				up := s.Roots()[0].Upper
				outside(t, up, `mkdir -p d/e; printf 22 > d/e/f; printf 22 > d/e/n; chmod 700 d/e`)
				where := filepath.Join(root, "d")
				if side == "upper" {
					where = filepath.Join(up, "d")
				}
				if err := os.Symlink(victim, filepath.Join(where, "link")); err != nil {
					t.Fatal(err)
				}
				d, err := tree.OpenAbs(where, unix.O_PATH|unix.O_DIRECTORY)
				if err != nil {
					t.Fatal(err)
				}
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for {
						select {
						case <-stop:
							return
						default:
							_ = d.Rename("e", "link", unix.RENAME_EXCHANGE)
						}
					}
				}()
				switch err := s.Commit(context.Background()); {
				case err == nil:
					done++
				case errors.As(err, new(*CommitError)):
					half++
				default:
					refused++
				}
				close(stop)
				<-stopped
				d.Close()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d commits, %d refused, %d half done", done, refused, half)
			wantSame(t, look(t, victim), before)
		})
	}
}

// A failure while renaming is taken back, and is not a conflict the next time.
func TestUndo(t *testing.T) {
	testenv.Leaks(t)
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%v", plain), func(t *testing.T) { testUndo(t, plain) })
	}
}

func testUndo(t *testing.T, plain bool) {
	root := project(t, `mkdir -p d/sub e k; printf 1 > d/sub/f; printf 1 > g; printf 1 > h; ln -s a l`)
	s := create(t, root)
	s.log.Plain = plain
	want := sandbox(t, s, `printf 2 > d/sub/f; rm -r k; rm h; mkdir h; printf 2 > h/x; chmod 700 e; printf 2 > new; rm g; rm l; ln -s b l`)
	before := look(t, root)
	untilNewer(t, s, filepath.Dir(root))
	for n := range 7 {
		c := newCommit(s, CommitOptions{})
		if err := c.find(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := c.resolveConflicts(context.Background()); err != nil {
			t.Fatalf("after %d failures: %v", n, err)
		}
		if err := c.begin(context.Background()); err != nil {
			t.Fatal(err)
		}
		j := c.tx.Journal
		if len(j.Moves) != 6 || len(j.Attrs) != 1 {
			t.Fatalf("%d moves, %d changes of attributes", len(j.Moves), len(j.Attrs))
		}
		// The nth one cannot be done.
		if n == len(j.Moves) {
			j.Nodes[j.Attrs[0].Node].Path = "nowhere"
		} else if m := j.Nodes[j.Moves[n].First]; m.New.Ino != 0 && !j.Moves[n].Taken {
			if err := tree.RemoveTree(c.tx.Objects, strconv.Itoa(n)); err != nil {
				t.Fatal(err)
			}
		} else if err := c.tx.Objects.Mkdir(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
		err := c.tx.Forward(true)
		if n < len(j.Moves) {
			_ = c.tx.Objects.Unlink(strconv.Itoa(n), unix.AT_REMOVEDIR)
		}
		if err == nil {
			t.Fatalf("move %d did not fail", n)
		}
		if err := c.failed(err); errors.As(err, new(*CommitError)) {
			t.Errorf("move %d: %v", n, err)
		}
		c.close()
		wantSame(t, look(t, root), before)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	commitAll(t, s)
	wantSame(t, look(t, root), want)
	if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, look(t, root), before)
	commitAll(t, s)
	wantSame(t, look(t, root), want)
}

// Many changes are flushed in another way.
func TestMany(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir d; for i in 1 2 3 4 5 6 7 8 9; do for j in 0 1 2 3 4 5 6 7 8 9; do printf x > d/$i$j; done; done`)
	s := create(t, root)
	want := sandbox(t, s, `for f in d/*; do printf y >> $f; done; rm d/1*; for i in d/9*; do printf n > $i.n; done`)
	commitAll(t, s)
	wantSame(t, look(t, root), want)
}

func TestDiscard(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f`)
	before := look(t, root)
	s := create(t, root)
	sandbox(t, s, `mkdir -p a/b/c; printf 1 > a/b/c/f; chmod 000 a/b/c/f a/b/c a/b a; ln -s / l; mkfifo p; chmod 500 .`)
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	wantSame(t, look(t, root), before)
	for _, err := range s.Changes() {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("changes after discard: %v", err)
		}
	}
	if err := s.Discard(); err != nil {
		t.Errorf("again: %v", err)
	}
	for range 2 { // for good, and once more
		if err := s.Erase(); err != nil {
			t.Fatal(err)
		}
	}
	left, _ := os.ReadDir(s.Dir())
	if len(left) != 2 || s.State() != Discarded {
		t.Errorf("left: %v, state %v", left, s.State())
	}
	if err := s.Undo(t.Context(), UndoOptions{}); !errors.Is(err, ErrNoCommit) {
		t.Errorf("undo of a discard that cannot be undone: %v", err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	left, _ = os.ReadDir(filepath.Dir(s.Dir()))
	pending, _ := os.ReadDir(filepath.Join(filepath.Dir(s.Dir()), store.PendingName))
	if len(left) != 1 || left[0].Name() != store.PendingName || len(pending) != 0 {
		t.Errorf("left of a removed session: %v %v", left, pending)
	}
}

// A tree deeper than there may be descriptors and longer than any path.
func TestDeep(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `true`)
	s := create(t, root)
	d, err := tree.OpenAbs(s.Roots()[0].Upper, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	levels := 3000
	if os.Getenv("NSRUN_LONG") != "" {
		levels = 20_000
	}
	for range levels {
		if err := d.Mkdir("dd"); err != nil {
			t.Fatal(err)
		}
		next, err := d.OpenDir("dd")
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = next
	}
	d.Close()
	n := 0
	var last error
	for _, err := range s.Changes() {
		if err != nil {
			last = err
			continue
		}
		n++
	}
	if n < 1000 || !errors.Is(last, unix.ENAMETOOLONG) {
		t.Errorf("%d changes, then %v", n, last)
	}
	before := look(t, root)
	if err := s.Commit(context.Background()); !errors.Is(err, unix.ENAMETOOLONG) || !strings.Contains(err.Error(), "cannot be committed") {
		t.Errorf("commit: %v", err)
	}
	wantSame(t, look(t, root), before)
	// Nothing else of the session has to suffer for it.
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(s.Roots()[0].Upper, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"a part":         s.Commit(t.Context(), "f"),
		"without it":     s.CommitWith(t.Context(), CommitOptions{Exclude: []string{"dd"}}),
		"undo":           s.Undo(t.Context(), UndoOptions{}),
		"discard":        s.Discard(),
		"undo a discard": s.Undo(t.Context(), UndoOptions{}),
		"drop":           s.Drop(t.Context(), "dd"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantChanges(t, s, "A g")
	if err := s.Erase(); err != nil {
		t.Error(err)
	}
}

// A walk comes back to directories whose descriptors it gave up.
func TestDeepOrder(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `true`)
	s := create(t, root)
	want := sandbox(t, s, `p=.; for i in $(seq 120); do p=$p/m; mkdir $p; : > $p/a; : > $p/z; done; chmod 000 m/m/m`)
	got := changes(t, s)
	if len(got) != 360 {
		t.Errorf("%d changes", len(got))
	}
	var names []string
	for _, g := range got {
		names = append(names, strings.TrimSuffix(g[2:], "/"))
	}
	if !slices.IsSortedFunc(names, paths.Compare) {
		t.Error("not in path order")
	}
	commitAll(t, s)
	outside(t, root, `chmod 755 m/m/m`)
	if n := strings.Count(look(t, root), "\n"); n != strings.Count(want, "\n") {
		t.Errorf("%d objects", n)
	}
}

func TestClosedDirectories(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir -p ro/sub; printf 1 > ro/f; printf 1 > ro/sub/g; chmod 555 ro ro/sub; mkdir -p open/in; printf 1 > open/in/f`)
	s := create(t, root)
	want := sandbox(t, s, `printf 2 > ro/f; printf 2 > ro/n; rm -r ro/sub; printf 2 > open/in/f; printf 2 > open/in/n; chmod 500 open/in; chmod 555 open; mkdir mod; printf 2 > mod/f; chmod 444 mod/f; chmod 555 mod`)
	commitAll(t, s)
	wantSame(t, look(t, root), want)
}

func TestOpenAndList(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f`)
	state := filepath.Join(tempDir(t), "state")
	var ids []string
	for i := range 5 {
		s, err := Create(Options{Roots: []string{root}, Dir: state, Command: []string{"cmd", fmt.Sprint(i), "\xff"}})
		if err != nil {
			t.Fatal(err)
		}
		untilNewer(t, s, filepath.Dir(root))
		ids = append(ids, s.ID())
		if i == 4 {
			defer s.Close()
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for info, err := range List(state) {
		if err != nil {
			t.Fatal(err)
		}
		if info.ID != ids[n] || info.Command[1] != fmt.Sprint(n) || info.Command[2] != "\xff" || info.Busy != (n == 4) ||
			info.State != Kept || info.Roots[0].Path != root || info.Dir != filepath.Join(state, ids[n]) {
			t.Errorf("session %d: %+v", n, info)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d sessions", n)
	}
	_, random, _ := strings.Cut(ids[1], "-")
	for _, id := range []string{ids[1], random, random[:6], ids[1][3:]} {
		s, err := Open(state, id)
		if err != nil || s.ID() != ids[1] {
			t.Fatalf("open %s: %v", id, err)
		}
		if _, err := Open(state, id); !errors.Is(err, ErrBusy) {
			t.Errorf("open twice: %v", err)
		}
		r, err := OpenReadOnly(state, id)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Info().Busy {
			t.Error("a session that is locked is not busy")
		}
		wantChanges(t, r)
		if err := r.Commit(context.Background()); !errors.Is(err, ErrReadOnly) {
			t.Errorf("commit: %v", err)
		}
		if err := r.Discard(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("discard: %v", err)
		}
		r.Close()
		s.Close()
	}
	if r, err := OpenReadOnly(state, ids[1]); err != nil || r.Info().Busy {
		t.Errorf("nobody holds it: %v", err)
	} else {
		r.Close()
	}
	if r, err := OpenReadOnly(state, "last"); err != nil || r.ID() != ids[4] {
		t.Errorf("last: %v", err)
	} else {
		r.Close()
	}
	if _, err := Open(state, ids[1][:8]); err == nil || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("ambiguous: %v", err)
	}
	for _, id := range []string{"", "nosuch", "../" + filepath.Base(root), "."} {
		if _, err := Open(state, id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %q: %v", id, err)
		}
	}
	if _, err := Open(filepath.Join(state, "none"), "last"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no state directory: %v", err)
	}
	for range List(filepath.Join(state, "none")) {
		t.Error("a session in no state directory")
	}
	// One that is damaged is named, and the others are still listed.
	if err := os.WriteFile(filepath.Join(state, ids[2], store.MetaName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n = 0
	for info, err := range List(state) {
		if (err != nil) != (info.ID == ids[2]) {
			t.Errorf("%s: %v", info.ID, err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d sessions", n)
	}
}

// TestReadOnlyDisk: looking at sessions opens nothing for writing.
func TestReadOnlyDisk(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedUser(t) // whom modes do not stop
	s := create(t, t.TempDir())
	state, id := filepath.Dir(s.Dir()), s.ID()
	lock := filepath.Join(s.Dir(), store.LockName)
	s.Close()
	if err := os.Chmod(lock, 0o400); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(state, id)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	for _, err := range List(state) {
		if err != nil {
			t.Error(err)
		}
	}
	// As a control, that the mode stops anybody.
	if _, err := Open(state, id); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("open for writing: %v", err)
	}
}

func TestRefusedRoots(t *testing.T) {
	testenv.Leaks(t)
	base := project(t, `mkdir -p a/b c; printf 1 > f; ln -s a l; ln -s nowhere dangling; mkdir -p st/in`)
	p := func(s string) string { return filepath.Join(base, s) }
	for _, tt := range []struct {
		roots []string
		dir   string
		want  string
	}{
		{nil, p("st"), "no root"},
		{[]string{""}, p("st"), "invalid"},
		{[]string{"/"}, p("st"), "whole file system"},
		{[]string{p("f")}, p("st"), "not a directory"},
		{[]string{p("none")}, p("st"), "no such file"},
		{[]string{p("dangling")}, p("st"), "no such file"},
		{[]string{p("a"), p("a/b")}, p("st"), "lies in another root"},
		{[]string{p("a/b"), p("a")}, p("st"), "contains another root"},
		{[]string{p("a"), p("l")}, p("st"), "given twice"},
		{[]string{base}, p("st"), "contains the state directory"},
		{[]string{p("a")}, p("a"), "contains the state directory"},
		{[]string{p("st/in")}, p("st"), "lies in the state directory"},
		{[]string{p("c")}, p("l"), "not a directory"},
		{[]string{p("c")}, p("f"), "not a directory"},
	} {
		s, err := Create(Options{Roots: tt.roots, Dir: tt.dir})
		var e *Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q in %s: %v, want %q", tt.roots, tt.dir, err, tt.want)
		}
		if s != nil {
			s.Close()
		}
	}
	// By way of a link, the directory itself is the root.
	s, err := Create(Options{Roots: []string{p("l/b")}, Dir: p("st/deep/er")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Roots()[0].Path != p("a/b") {
		t.Errorf("root %q", s.Roots()[0].Path)
	}
	for _, dir := range []string{p("st/deep"), p("st/deep/er"), s.Dir()} {
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, st.Mode(), err)
		}
	}
}

func TestStateDirRefused(t *testing.T) {
	testenv.Leaks(t)
	base := project(t, `mkdir mine open; chmod 777 open; mkdir writable; chmod 770 writable`)
	root := project(t, `true`)
	try := func(dir, want string) {
		t.Helper()
		s, err := Create(Options{Roots: []string{root}, Dir: dir})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
	try(filepath.Join(base, "open", "state"), "everybody can write")
	try(filepath.Join(base, "writable"), "others can write")
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(base, "mine"), 1, 1); err != nil {
			t.Fatal(err)
		}
		try(filepath.Join(base, "mine"), "belongs to user 1")
		try(filepath.Join(base, "mine", "state"), "belongs to user 1")
	} else {
		try("/root-owned-is-not-writable/state", "denied")
	}
}

// The beginning of a session may not depend on the size of the project, nor
// leave anything behind when it fails.
func TestCreateFails(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `true`)
	state := filepath.Join(tempDir(t), "state")
	if _, err := Create(Options{Roots: []string{root, root}, Dir: state}); err == nil {
		t.Fatal("no error")
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRootLooksTheSame(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `chmod 2751 .; touch -d 2001-01-01 .`)
	s := create(t, root)
	want := look(t, root)
	wantSame(t, sandbox(t, s, `true`), want)
	wantChanges(t, s)
}

// Attributes are compared and committed, and overlay's own are not.
func TestXattrs(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f; mkdir d; printf 1 > g`)
	set := func(p, name, v string) {
		t.Helper()
		if err := unix.Setxattr(p, name, []byte(v), 0); err != nil {
			testenv.Skip(t, "xattr", err.Error())
		}
	}
	set(filepath.Join(root, "g"), "user.keep", "old")
	s := create(t, root)
	sandbox(t, s, `touch f g; touch d/x; mkdir n; printf 2 > n/y`)
	wantChanges(t, s, "A d/x", "A n/", "A n/y")
	up := s.Roots()[0].Upper
	set(filepath.Join(up, "f"), "user.a", "1")
	set(filepath.Join(up, "d"), "user.b", "2")
	set(filepath.Join(up, "n"), "user.c", "3")
	set(filepath.Join(up, "n/y"), "user.d", "4")
	set(filepath.Join(up, "n/y"), "user.overlay.origin", "5")
	if err := unix.Removexattr(filepath.Join(up, "g"), "user.keep"); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, s, "M d/", "A d/x", "M f", "M g", "A n/", "A n/y")
	commitAll(t, s)
	for _, tt := range []struct{ path, name, want string }{
		{"f", "user.a", "1"}, {"d", "user.b", "2"}, {"n", "user.c", "3"}, {"n/y", "user.d", "4"},
		{"n/y", "user.overlay.origin", ""}, {"g", "user.keep", ""},
	} {
		buf := make([]byte, 10)
		n, err := unix.Getxattr(filepath.Join(root, tt.path), tt.name, buf)
		if got := string(buf[:max(n, 0)]); got != tt.want {
			t.Errorf("%s %s: %q, %v", tt.path, tt.name, got, err)
		}
	}

	s = create(t, root)
	sandbox(t, s, `printf 3 > f`)
	set(filepath.Join(s.Roots()[0].Upper, "f"), "user.overlay.metacopy", "")
	if err := s.Commit(context.Background()); !errors.Is(err, tree.ErrLayer) {
		t.Errorf("metacopy: %v", err)
	}
}

// Whiteouts may be files with an attribute, in directories that say so.
func TestXattrWhiteouts(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir d; printf 1 > d/a; printf 1 > d/b; printf 1 > a`)
	s := create(t, root)
	up := s.Roots()[0].Upper
	outside(t, up, `mkdir d; : > d/a; : > d/b; : > a`)
	for _, x := range []struct{ path, name, value string }{
		{"d", "opaque", "x"}, {"d/a", "whiteout", "y"}, {"a", "whiteout", "y"},
	} {
		if err := unix.Setxattr(filepath.Join(up, x.path), tree.OverlayPrefix+x.name, []byte(x.value), 0); err != nil {
			testenv.Skip(t, "xattr", err.Error())
		}
	}
	wantChanges(t, s, "M a", "D d/a", "M d/b")
}

func TestKindText(t *testing.T) {
	testenv.Leaks(t)
	for k, want := range map[Kind]string{Added: "added A", Modified: "modified M", Deleted: "deleted D", TypeChanged: "type T"} {
		if got := fmt.Sprintf("%v %c", k, k.Letter()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		text, err := k.MarshalText()
		var back Kind
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != k {
			t.Errorf("%v: %q, %v, %v", k, text, err, err2)
		}
	}
	if text, err := Kind(0).MarshalText(); err != nil || len(text) > 0 {
		t.Errorf("the zero Kind has the name %q, %v", text, err)
	}
}
