//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// What the project had that its owner could not read.
var closedCases = []struct{ name, before, script string }{
	{"removed", `mkdir -p d/e; echo x >d/e/f; chmod 000 d`, `chmod 700 d; rm -r d`},
	{"removed with one inside", `mkdir -p d/e; echo x >d/e/f; chmod 000 d/e`, `chmod 700 d/e; rm -r d`},
	{"not listable", `mkdir -p d/e; echo x >d/e/f; chmod 300 d`, `chmod 700 d; rm -r d`},
	{"not searchable", `mkdir -p d/e; echo x >d/e/f; chmod 600 d/e d`, `chmod 700 d d/e; rm -r d`},
	{"opened", `mkdir -p d/e; echo x >d/e/f; chmod 000 d`, `chmod 700 d; echo y >d/new; echo z >>d/e/f`},
	{"opened and closed", `mkdir -p d/e; echo x >d/e/f; chmod 000 d`, `chmod 700 d; echo y >d/new; rm d/e/f; chmod 000 d`},
	{"moved", `mkdir -p d/e; echo x >d/e/f; chmod 000 d`, `chmod 700 d; mv d dd`},
	{"replaced", `mkdir -p d/e; echo x >d/e/f; chmod 000 d/e d`, `chmod 700 d d/e; rm -r d; echo now a file >d`},
	{"made anew", `mkdir -p d/e; echo x >d/e/f; chmod 000 d/e d`, `chmod 700 d d/e; rm -r d; mkdir -p d/e; echo x >d/e/f; echo n >d/n`},
	{"another name", `mkdir d; echo x >d/f; chmod 000 d`, `chmod 700 d; ln d/f g`},
	{"files", `mkdir d; echo x >d/f; echo y >g; chmod 000 d/f g d`, `chmod 700 d; chmod 600 d/f g; echo more >>d/f; echo z >g; chmod 000 d/f`},
	{"the root", `mkdir d; echo x >d/f; echo y >g; chmod 300 .`, `echo z >g; rm -r d; echo n >n`},
}

// TestClosedBefore: directories of the project that their owner cannot read are listed, committed, put back, committed
// again and discarded like others, and no listing changes them.
func TestClosedBefore(t *testing.T) {
	testenv.Leaks(t)
	for _, tt := range closedCases {
		for _, e := range enginesHere(t) {
			t.Run(tt.name+"/"+e.String(), func(t *testing.T) {
				testenv.TakeTurns(t)
				root := project(t, tt.before)
				was := look(t, root)
				ctime := func() (list []int64) {
					for _, p := range []string{root, filepath.Join(root, "d")} {
						var st unix.Stat_t
						if err := unix.Lstat(p, &st); err != nil && !errors.Is(err, unix.EACCES) {
							t.Fatal(err)
						}
						list = append(list, st.Ctim.Nano())
					}
					return list
				}
				s := createWith(t, e, root)
				saw := sandbox(t, s, tt.script)
				first := ctime()
				list := versions(t, s)
				r, err := OpenReadOnly(filepath.Dir(s.Dir()), s.ID())
				if err != nil {
					t.Fatal(err)
				}
				if again := versions(t, r); again != list || list == "" {
					t.Errorf("opened for reading, it has\n%s\nand not\n%s", again, list)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if now := ctime(); now[0] != first[0] || now[1] != first[1] {
					t.Error("a listing changed the project")
				}
				preserve(t, s)
				plain := func(s string) string { return strings.ReplaceAll(s, " 2 names", "") } // a backup is one
				for _, what := range []string{"commit", "commit again"} {
					commitAll(t, s)
					if now := look(t, root); plain(withoutTimes(now)) != plain(withoutTimes(saw)) {
						t.Errorf("%s:", what)
						wantSame(t, plain(withoutTimes(now)), plain(withoutTimes(saw)))
					}
					if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
						t.Fatalf("undo the %s: %v", what, err)
					}
					if now := look(t, root); now != was {
						t.Errorf("undo the %s:", what)
						wantSame(t, now, was)
					}
					if again := versions(t, s); again != list {
						t.Errorf("after the undo of the %s:", what)
						wantSame(t, again, list)
					}
				}
				if err := s.Discard(); err != nil {
					t.Error(err)
				}
				if now := look(t, root); now != was {
					t.Error("a discard changed the project:")
					wantSame(t, now, was)
				}
			})
		}
	}
}

// If nobody can read them, nothing is done.
func TestClosedForGood(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedUser(t)
	store.NoOpener = true
	defer func() { store.NoOpener = false }()
	for _, tt := range closedCases[:5] {
		root := project(t, tt.before)
		was := look(t, root)
		s := create(t, root)
		sandbox(t, s, tt.script)
		if err := s.Commit(t.Context()); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if now := look(t, root); now != was {
			t.Errorf("%s: changed:", tt.name)
			wantSame(t, now, was)
		}
	}
}
