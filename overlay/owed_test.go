//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestOwed: a commit is killed, and the recovery meets a full disk, so that it cannot note what nsrun itself changed in
// the project. Then the owner edits files. The next commit has a conflict for what the owner edited, and for nothing
// else: with the control, which edits nothing, it has none.
func TestOwed(t *testing.T) {
	testenv.Leaks(t)
	for _, apart := range []bool{false, true} {
		for _, edits := range []bool{false, true} {
			t.Run(fmt.Sprintf("apart=%v/edits=%v", apart, edits), func(t *testing.T) { owed(t, apart, edits) })
		}
	}
}

func owed(t *testing.T, apart, edits bool) {
	base := tempDir(t)
	states := base
	if apart {
		states = memory(t)
	}
	made := 0
	stand := func() (root, state, id string) {
		made++
		root, state = filepath.Join(base, fmt.Sprintf("p%d", made)), filepath.Join(states, fmt.Sprintf("s%d", made))
		write := func(text string, names ...string) {
			for _, name := range names {
				p := filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		}
		write("old", "changed", "edited", "gone/in/a", "gone/in/b", "stays/x")
		s, err := Create(Options{Roots: []string{root}, Dir: state, Command: []string{"test"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		up := s.Roots()[0].Upper
		for _, name := range []string{"changed", "edited", "added"} {
			if err := os.WriteFile(filepath.Join(up, name), []byte("new"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// A directory that was removed and made again as a file: what was in it is put back from a copy.
		if err := os.WriteFile(filepath.Join(up, "gone"), []byte("new"), 0o644); err != nil {
			t.Fatal(err)
		}
		return root, state, s.ID()
	}
	// The trials: each kind of error, at each call that writes the session's data or what comes before it.
	_, state, id := stand()
	whole, out := deed{State: state, ID: id, Do: "commit"}.strikeIt(t, strike.Plan{})
	if whole.ExitCode != exitDone {
		t.Fatalf("%+v %s", whole, out)
	}
	full := 0
	for _, k := range points(whole.Calls, testenv.Fewer(6)) {
		_, state, id := stand()
		deed{State: state, ID: id, Do: "commit"}.strikeIt(t, strike.Plan{At: k})
		mending := deed{State: state, ID: id, Do: "recover"}
		mends, _ := mending.strikeIt(t, strike.Plan{})
		for _, j := range points(mends.Calls, testenv.Fewer(6)) {
			root, state, id := stand()
			deed{State: state, ID: id, Do: "commit"}.strikeIt(t, strike.Plan{At: k})
			mending = deed{State: state, ID: id, Do: "recover"}
			r, _ := mending.strikeIt(t, strike.Plan{At: j, Do: strike.Fail, Errno: unix.ENOSPC, Stay: true})
			// Not opened: that would recover it.
			data, err := os.ReadFile(filepath.Join(root, "edited"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(root, "gone/in/a")); err != nil || string(data) != "old" {
				continue // it is committed, or nothing could be put back
			}
			full++
			if edits {
				untilTick(t, root)
				ownerEdits(t, root)
			}
			want := []string(nil)
			if edits {
				want = []string{"edited", "gone/in/a"}
			}
			if got := conflictsOf(t, state, id); !slices.Equal(got, want) {
				t.Errorf("killed at %d, the recovery failed from call %d on (%v): conflicts about %q, want %q", k, j, r.Call, got, want)
			}
		}
	}
	t.Logf("%d trials, %d calls", full, whole.Calls)
	if full == 0 {
		t.Error("nothing was tried")
	}
}

// ownerEdits changes two files, and not their sizes.
func ownerEdits(t *testing.T, root string) {
	for _, name := range []string{"edited", "gone/in/a"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("his"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// untilTick waits until what is changed now has a later time than what was changed before.
func untilTick(t *testing.T, dir string) {
	var first time.Time
	testenv.Eventually(t, "a step of the clock for files", func() bool {
		p := filepath.Join(filepath.Dir(dir), "tick")
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = st.ModTime()
		}
		return st.ModTime().After(first.Add(10 * time.Millisecond))
	})
}

// conflictsOf commits, and returns what it conflicts about.
func conflictsOf(t *testing.T, state, id string) (list []string) {
	s, err := openSoon(state, id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Commit(t.Context())
	conflict, ok := errors.AsType[*ConflictError](err)
	if !ok && err != nil {
		t.Fatal(err)
	}
	if ok {
		for _, c := range conflict.Conflicts {
			list = append(list, strings.TrimPrefix(c.Path, "./"))
		}
	}
	return list
}
