//go:build linux

package overlay

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A directory that is moved into the project has files that are older than the session. A commit must not take them
// for what the session began with, whoever moved it: the owner, or a commit of another session.
func TestArrived(t *testing.T) {
	testenv.Leaks(t)
	const setup = `mkdir -p src/in lib re; echo a >src/f; echo a >src/in/f; echo a >lib/f; echo a >re/f; echo a >re/g
cp -a src ../src2; cp -a lib ../lib2; echo other >../src2/in/f; echo other >../lib2/f; mkdir -p ../n/sub; echo other >../n/sub/f; echo other >../n/sub/h`
	for name, c := range map[string]struct {
		inside, other   string
		conflict, noted bool
	}{
		"the same file":              {`mkdir -p n/sub; echo s >n/sub/f`, `mv ../n .`, true, false},
		"another file":               {`mkdir -p n/sub; echo s >n/sub/g`, `mv ../n .`, false, false},
		"added beside":               {`mkdir src/a; echo s >src/a/f`, `mkdir -p ../s/a; echo o >../s/a/f; mv src ../old; mv ../s src`, true, true},
		"in a new directory":         {`mkdir -p src/n/sub; echo s >src/n/sub/f`, `mv ../n src/`, true, false},
		"a directory for a file":     {`mkdir -p n/sub/f; echo s >n/sub/f/g`, `mv ../n .`, true, false},
		"a file for a directory":     {`mkdir n; echo s >n/sub`, `mv ../n .`, true, false},
		"in a deleted one":           {`rm -r src`, `mv ../n src/`, true, false},
		"made again":                 {`rm -r re; mkdir -p re; echo s >re/f`, `mv re ../old; mv ../n/sub re`, true, true},
		"replaced":                   {`echo s >>src/in/f`, `mv src ../old; mv ../src2 src`, true, true},
		"replaced, below":            {`echo s >>src/in/f`, `mv src/in ../old; mv ../src2/in src/in`, true, true},
		"replaced, deleted there":    {`rm lib/f`, `mv lib ../old; mv ../lib2 lib`, true, true},
		"replaced, mode":             {`chmod 600 lib/f`, `mv lib ../old; mv ../lib2 lib`, true, true},
		"a new file beside":          {`echo s >>src/f; rm src/in/f; chmod 600 lib/f`, `echo o >src/o; echo o >src/in/o; echo o >lib/o`, false, false},
		"beside what was made again": {`rm -r re; mkdir re; echo s >re/f`, `echo o >re/o; rm re/o`, false, true},
		"removed beside":             {`echo s >>src/in/f`, `rm src/f`, false, false},
		"a directory arrived beside": {`echo s >>src/in/f; mkdir src/new; echo s >src/new/f`, `mv ../n src/`, false, false},
		"away and back":              {`echo s >>src/in/f`, `mv src ../old; mv ../old src`, false, false},
	} {
		for _, e := range engines {
			for _, kept := range []bool{true, false} {
				t.Run(name+"/"+e.String()+map[bool]string{true: "/kept"}[kept], func(t *testing.T) {
					if c.noted && !kept {
						return // which directories there were is noted by Preserve
					}
					testenv.TakeTurns(t)
					root := project(t, setup)
					s := createWith(t, e, root)
					sandbox(t, s, c.inside)
					if kept {
						preserve(t, s)
					}
					untilNewer(t, s, filepath.Dir(root))
					outside(t, root, c.other)
					wantUnlessConflict(t, s, root, c.conflict)
				})
			}
		}
	}
}

// wantUnlessConflict fails unless a commit succeeds or, with conflict, is refused and leaves the project as it was.
func wantUnlessConflict(t testing.TB, s *Session, root string, conflict bool) {
	t.Helper()
	before := look(t, root)
	for _, prefer := range []Preference{Refuse, Merge} {
		err := s.CommitWith(context.Background(), CommitOptions{Prefer: prefer})
		if got := errors.As(err, new(*ConflictError)); got != conflict || !got && err != nil {
			t.Fatalf("%v: %v, want a conflict: %v", prefer, err, conflict)
		}
		if !conflict {
			return
		}
		wantSame(t, look(t, root), before)
	}
}

// Sessions that begin together, and add the same directories: those of the first one are moved.
func TestArrivedByCommit(t *testing.T) {
	testenv.Leaks(t)
	for name, c := range map[string]struct{ first, second string }{
		"the same file":     {`mkdir -p n/sub; echo first >n/sub/f`, `mkdir -p n/sub; echo s >n/sub/f`},
		"one went further":  {`mkdir -p n/sub/a/b; echo first >n/sub/a/b/f`, `mkdir -p n/sub; echo s >n/sub/a`},
		"in an old one":     {`mkdir -p old/n/sub; echo first >old/n/sub/f`, `mkdir -p old/n/sub; echo s >old/n/sub/f`},
		"made again":        {`rm -r old; mkdir -p old/n; echo first >old/n/f`, `rm -r old; mkdir -p old/n; echo s >old/n/f`},
		"large":             {`mkdir n; truncate -s 2M n/f; echo first >>n/f`, `mkdir n; truncate -s 2M n/f; echo s >>n/f`},
		"links":             {`mkdir n; ln -s first n/l`, `mkdir n; ln -s s n/l`},
		"one of two names":  {`mkdir n; echo first >n/f; ln n/f n/g`, `mkdir n; echo s >n/g`},
		"renamed, as added": {`mkdir m; echo first >m/f; mv m n`, `mkdir n; echo s >n/f`},
	} {
		for _, late := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/committed while the command runs"}[late], func(t *testing.T) {
				root := project(t, `mkdir old; echo a >old/f`)
				a, b := create(t, root), createWith(t, EngineOverlay, root)
				if late {
					sandbox(t, a, c.first)
					sandbox(t, b, c.second)
					commitAll(t, a)
					preserve(t, b)
				} else {
					sandbox(t, b, c.second)
					preserve(t, b)
					sandbox(t, a, c.first)
					commitAll(t, a)
				}
				wantUnlessConflict(t, b, root, true)
			})
		}
	}
}

// TestArrivedUnknown: a commit fails if it cannot tell whether a directory was moved to its place, instead of taking
// what is in it for changed by somebody else. A directory that is gone or closed is one that changed.
func TestArrivedUnknown(t *testing.T) {
	testenv.Leaks(t)
	for err, fails := range map[error]bool{unix.ENOMEM: true, unix.EIO: true, unix.ENOENT: false, unix.EACCES: false} {
		root := project(t, `mkdir d; echo a >d/f`)
		s := create(t, root)
		sandbox(t, s, `touch d/f`)
		c := newCommit(s, CommitOptions{})
		if err := c.find(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.arrived.sides = func(int) (up, low tree.Tree, _ error) { return nil, nil, err }
		got := c.resolveConflicts(t.Context())
		if e, ok := errors.AsType[*Error](got); fails != errors.Is(got, err) || fails && (!ok || e.Path != filepath.Join(root, "d")) {
			t.Errorf("%v: %v", err, got)
		}
		c.close()
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}
