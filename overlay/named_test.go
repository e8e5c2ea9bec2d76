//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNamesOneByOne: committing one name of a file gives its other names a new ctime. That is no conflict for later
// commits of the session, for a session on top of it, or after an undo.
func TestNamesOneByOne(t *testing.T) {
	testenv.Leaks(t)
	const project3 = `echo text > a; ln a b; ln a x; echo other > o; ln -s to s; ln -P s t; mkfifo p; ln p q`
	firsts := []string{`rm b`, `echo 1 >> b`, `mv b m`, `ln a c`, `ln b c`, `touch -d @1 b; echo > n`, `chmod 600 b`, `ln -f o b`, `rm b x`, `ln -f b x; echo 1 > x`,
		`rm t`, `mv t u`, `ln -P s u`, `ln -P t u`, `rm q`, `ln p r`, `mv q r`, `ln b c; touch -d @1 b`, `ln -P t u; touch -h -d @1 t`}
	seconds := []string{`echo 2 >> a`, `rm a`, `chmod 600 a`, `mv a z`, `ln a z; touch -d @1 a`, `ln o z; rm a`, `ln -Pf o s`, `rm s`, `mv s z`, `rm p`, `ln p z`, `chmod 600 p`}
	for i, first := range firsts {
		for k, second := range seconds {
			if !testenv.Long() && (i+k)%4 > 0 && second != `echo 2 >> a` {
				continue
			}
			t.Run(fmt.Sprintf("%s, %s", first, second), func(t *testing.T) {
				testenv.TakeTurns(t)
				root := project(t, project3)
				began := prints(t, root)
				one := create(t, root)
				sandbox(t, one, first)
				two := stack(t, one, root)
				sandbox(t, two, second)
				one = reopen(t, one)
				commit := func(s *Session) {
					t.Helper()
					if err := s.CommitWith(t.Context(), CommitOptions{AllowSpecial: true}); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					commit(one)
					between := prints(t, root)
					commit(two)
					if err := undoIt(two); err != nil {
						t.Fatal(err)
					}
					if d := difference(prints(t, root), between); len(d) > 0 {
						t.Errorf("undo of the second: %q", d)
					}
					if err := undoIt(one); err != nil {
						t.Fatal(err)
					}
					if d := difference(prints(t, root), began); len(d) > 0 {
						t.Errorf("undo of the first: %q", d)
					}
				}
			})
		}
		// One change after the other in one session. What is replaced may be copied to another file system.
		for _, far := range []bool{false, true} {
			t.Run(fmt.Sprint(first, ", in parts, far ", far), func(t *testing.T) {
				testenv.TakeTurns(t)
				root := project(t, project3)
				dir := tempDir(t)
				if far {
					dir = memory(t)
				}
				s, err := Create(Options{Roots: []string{root}, Dir: filepath.Join(dir, "state")})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				sandbox(t, s, first+`; echo 2 >> a; rm s; chmod 600 p`)
				for s.State() == Kept {
					var paths []string
					for c, err := range s.Changes() {
						if err != nil {
							t.Fatal(err)
						}
						paths = append(paths, filepath.Join(root, c.Path))
					}
					if len(paths) == 0 {
						break
					}
					p := paths[len(paths)-1]
					commitAll(t, s, p)
					if err := undoIt(s); err != nil {
						t.Fatal(err)
					}
					commitAll(t, s, p)
				}
				if _, err := os.Lstat(filepath.Join(root, "s")); err == nil {
					t.Error("the link is there")
				}
			})
		}
	}
}

// TestNamesOfOthers: what the project's owner does to another name of a file that was committed is a conflict still.
func TestNamesOfOthers(t *testing.T) {
	testenv.Leaks(t)
	for _, c := range []struct{ name, first, second, owner string }{
		{"written", `rm b`, `echo 2 >> a`, `echo own >> a`},
		{"written, and of the same time and size", `rm b`, `echo 2 >> a`, `touch -r a ref; echo own > a; touch -r ref a; rm ref`},
		{"another mode", `mv b c`, `rm a`, `chmod 600 a`},
		{"moved", `rm b`, `echo 2 > z`, `mv a z`},
		{"linked", `ln a c`, `echo 2 > z`, `ln a z`},
		{"removed", `rm b`, `echo 2 >> a`, `rm a`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := project(t, `echo txt > a; ln a b`)
			one := create(t, root)
			sandbox(t, one, c.first)
			two := stack(t, one, root)
			sandbox(t, two, c.second)
			preserve(t, two)
			one = reopen(t, one)
			commitAll(t, one)
			outside(t, root, c.owner)
			wantConflict(t, two.Commit(t.Context()))
		})
		// The owner is first, and is overruled for one name.
		t.Run(c.name+", in parts", func(t *testing.T) {
			root := project(t, `echo txt > a; ln a b`)
			s := create(t, root)
			sandbox(t, s, c.first+"; "+c.second)
			preserve(t, s)
			outside(t, root, c.owner)
			first := "b"
			if c.first == `ln a c` {
				first = "c"
			}
			if err := s.CommitWith(t.Context(), CommitOptions{Paths: []string{filepath.Join(root, first)}, Prefer: Theirs}); err != nil {
				t.Fatal(err)
			}
			wantConflict(t, s.Commit(t.Context()))
		})
	}
}

// wantConflict fails if a commit was not refused because of the project's owner.
func wantConflict(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*ConflictError](err); !ok {
		t.Errorf("%v, not a conflict", err)
	}
}
