//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// A survey that ends late, when a commit has made everything and written its journal, holds back what an early one
// does. What the survey does not concern is committed, once.
func TestSearchLate(t *testing.T) {
	testenv.Leaks(t)
	defer func() { beforeSearch = func() {} }()
	for name, c := range map[string]struct {
		before string // what is in the project
		held   string
		again  bool // the commit begins anew
	}{
		"no repository":                 {"mkdir d1 shared", "", false},
		"a repository":                  {"mkdir shared; " + fmt.Sprintf(nested, "d1"), "shared/pre-commit", true},
		"it leads elsewhere":            {"mkdir shared; " + fmt.Sprintf(nested, "d1") + "sed -i s/shared/other/ d1/.git/config", "", false},
		"a link with a known name":      {"mkdir shared; ln -s shared/pre-commit .envrc", "shared/pre-commit", true},
		"it leads to what is as it was": {"mkdir shared other; ln -s other/x .envrc; echo other >other/x", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, "mkdir a; "+c.before)
			s := create(t, root)
			sandbox(t, s, `echo x >shared/pre-commit; chmod +x shared/pre-commit; echo x >a/x`)
			sealed := filepath.Join(s.Dir(), tx.Name, "*", tx.JournalName)
			beforeSearch = func() {
				if !testenv.Poll(testenv.Patience, func() bool { list, _ := filepath.Glob(sealed); return len(list) > 0 }) {
					t.Error("the commit waited for the survey")
				}
			}
			if err := s.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			held := ""
			for _, h := range s.Held() {
				held += h.Path
			}
			if held != c.held || s.patient != c.again {
				t.Errorf("held %q, began anew: %v", held, s.patient)
			}
			if _, err := os.Stat(filepath.Join(root, "a/x")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(root, "shared/pre-commit")); errors.Is(err, os.ErrNotExist) != (c.held != "") {
				t.Error(err)
			}
			if list, err := filepath.Glob(sealed); err != nil || len(list) != 1 {
				t.Errorf("journals: %q, %v", list, err)
			}
			if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
				t.Error(err)
			}
			for _, p := range []string{"a/x", "shared/pre-commit"} {
				if _, err := os.Stat(filepath.Join(root, p)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s after the undo: %v", p, err)
				}
			}
		})
	}
}

// If a late survey holds back a file, its conflict is not the commit's.
func TestSearchConflict(t *testing.T) {
	defer func() { beforeSearch, beforeWait = func() {}, func() {} }()
	for _, leads := range []bool{false, true} {
		before := "mkdir a shared; echo x >shared/pre-commit; "
		if leads {
			before += fmt.Sprintf(nested, "d1")
		}
		root := project(t, before)
		s := create(t, root)
		sandbox(t, s, `echo session >shared/pre-commit; chmod +x shared/pre-commit; echo x >a/x`)
		outside(t, root, `echo owner >shared/pre-commit`)
		waits := make(chan struct{})
		beforeSearch = func() {
			select {
			case <-waits:
			case <-time.After(testenv.Patience):
				t.Error("the commit did not wait for the survey")
			}
		}
		beforeWait = func() { close(waits) }
		err := s.Commit(t.Context())
		if s.patient != leads {
			t.Errorf("leads %v: began anew: %v", leads, s.patient)
		}
		_, conflict := errors.AsType[*ConflictError](err)
		if conflict == leads || !conflict && err != nil {
			t.Errorf("leads %v: %v", leads, err)
		}
		got, err := os.ReadFile(filepath.Join(root, "shared/pre-commit"))
		if err != nil || strings.TrimSpace(string(got)) != "owner" {
			t.Errorf("leads %v: %q, %v", leads, got, err)
		}
	}
}
