//go:build linux

package record

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

func TestMain(m *testing.M) { testenv.OwnState(); testenv.Main(m) }

// session has three changes: of a, and of two files in d.
func session(t *testing.T) *overlay.Session {
	t.Helper()
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/a: 1\n", "p/d/b: 1\n")
	s, err := overlay.Create(overlay.Options{Roots: []string{filepath.Join(dir, "p")}, Dir: filepath.Join(dir, "state"), Engine: overlay.EngineOverlay})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	testenv.Tree(t, s.Roots()[0].Upper, "a: 2\n", "d/b: 2\n", "d/c: 2\n")
	return s
}

func paths(changes []overlay.Change) string {
	var list []string
	for _, c := range changes {
		list = append(list, c.Path)
	}
	return strings.Join(list, " ")
}

// TestDropChanges: a drop records the changes that were in the session before it and are not there afterwards.
func TestDropChanges(t *testing.T) {
	testenv.Leaks(t)
	s := session(t)
	for _, c := range []struct{ path, want string }{{"d/c", "d/c"}, {"d", "d/b"}, {"a", "a"}} {
		dropped, err := DropChanges(t.Context(), s, c.path)
		if err != nil || paths(dropped) != c.want {
			t.Errorf("%s: dropped %q, %v, want %q", c.path, paths(dropped), err, c.want)
		}
	}
	if dropped, err := DropChanges(t.Context(), s, "a"); err == nil {
		t.Errorf("dropped twice: %q", paths(dropped))
	}
}

// said is what f prints on standard error.
func said(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = old
	_ = w.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTell: a failure is reported in one line, and stops nothing.
func TestTell(t *testing.T) {
	testenv.Leaks(t)
	called := 0
	tell := func(err error) func() {
		return func() {
			Tell(func(_ context.Context, reg nsrunlib.Registry) error {
				called++
				if reg.Registry == nil {
					t.Error("without a registry")
				}
				return err
			})
		}
	}
	if got := said(t, tell(nil)); got != "" {
		t.Errorf("success: %q", got)
	}
	if got := said(t, tell(errors.Join(errors.New("one"), errors.New("two")))); got != "nsrun: registry: one; two\n" {
		t.Errorf("failure: %q", got)
	}
	// Without a known home directory there is no registry.
	t.Setenv("HOME", "relative")
	t.Setenv("XDG_DATA_HOME", "")
	if got := said(t, tell(errors.New("no"))); got != "" || called != 2 {
		t.Errorf("without a home: %q, called %d times", got, called)
	}
}

// TestTold: each of them finds the registry, and nothing of the session in it.
func TestTold(t *testing.T) {
	testenv.Leaks(t)
	s := session(t)
	var changes []overlay.Change
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	for name, f := range map[string]func(){
		"commit": func() { Commit(s) }, "undo": func() { Undo(s, changes) }, "drop": func() { Drop(s, changes) },
		"discard": func() { Discard(s.ID()) }, "tidy": Tidy,
	} {
		if got := said(t, f); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
