//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// marked are the changes that run later, as a listing has them.
func marked(t *testing.T, s *Session) (list []string) {
	t.Helper()
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		if c.Runs != "" {
			list = append(list, c.Path)
		}
	}
	return list
}

// nested makes a repository of a directory that leads git to what is beside it.
const nested = `mkdir -p %[1]s/.git/refs %[1]s/.git/objects; echo 'ref: refs/heads/x' >%[1]s/.git/HEAD; printf '[core]\n\thooksPath = ../shared\n' >%[1]s/.git/config; `

// untilLater waits until what is changed gets another time than a directory has.
func untilLater(t *testing.T, dir string) {
	t.Helper()
	at, p := lstatOf(t, dir).Ctime, filepath.Join(t.TempDir(), "tick")
	for {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if lstatOf(t, p).Ctime > at {
			return
		}
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
}

func lstatOf(t *testing.T, p string) tree.Stat {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		t.Fatal(err)
	}
	return tree.MakeStat(&st)
}

// What a repository one level below a root leads to is marked, and held, wherever the repository is among the names
// of the root, whatever else these are, and whenever its owner made it.
func TestSurvey(t *testing.T) {
	testenv.Leaks(t)
	defer func(age func(int64) time.Duration) { tree.SurveyAge = age }(tree.SurveyAge)
	tree.SurveyAge = func(int64) time.Duration { return 0 } // what must be older is waited for
	const most = 3 * tree.FewDirs
	many := fmt.Sprintf(`seq -f d%%.0f 0 %d | xargs mkdir; mkdir shared; touch file; ln -s d1 link; mkdir -m 0 shut; `, most)
	last := fmt.Sprintf("d%d", most)
	for name, c := range map[string]struct {
		before, after string   // what the owner does before the session, and after its first listing
		first, again  []string // what the two listings mark
		held          bool
	}{
		"none":                  {"", "", nil, nil, false},
		"first":                 {fmt.Sprintf(nested, "d0"), "", []string{"shared/pre-commit"}, []string{"shared/pre-commit"}, true},
		"last":                  {fmt.Sprintf(nested, last), "", []string{"shared/pre-commit"}, []string{"shared/pre-commit"}, true},
		"a file .git":           {fmt.Sprintf(nested, "d5") + `mv d5/.git d6/git; echo 'gitdir: ../d6/git' >d5/.git`, "", []string{"shared/pre-commit"}, []string{"shared/pre-commit"}, true},
		"its name is odd":       {`mkdir "a b"; ` + fmt.Sprintf(nested, `"a b"`), "", []string{"shared/pre-commit"}, []string{"shared/pre-commit"}, true},
		"new since the listing": {"", fmt.Sprintf(nested, "new"), nil, []string{"shared/pre-commit"}, true},
		"moved there since":     {"mkdir deep; " + fmt.Sprintf(nested, "deep/x"), "mv deep/x .", nil, []string{"shared/pre-commit"}, true},
		// The root looks as it did: only the commit looks again.
		"made of a directory since": {"", fmt.Sprintf(nested, last), nil, nil, true},
		"no longer":                 {fmt.Sprintf(nested, "d1"), `rm -r d1/.git`, []string{"shared/pre-commit"}, nil, false},
		"leads elsewhere since":     {fmt.Sprintf(nested, "d1"), `sed -i s/shared/other/ d1/.git/config`, []string{"shared/pre-commit"}, nil, false},
		"leads there since":         {fmt.Sprintf(nested, "d1") + `sed -i s/shared/other/ d1/.git/config`, fmt.Sprintf(nested, "d1"), nil, []string{"shared/pre-commit"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, many+c.before)
			t.Cleanup(func() { os.Chmod(filepath.Join(root, "shut"), 0o700) })
			s := create(t, root)
			sandbox(t, s, `echo x >shared/pre-commit; chmod +x shared/pre-commit`)
			if got := marked(t, s); !slices.Equal(got, c.first) {
				t.Errorf("marked: %q", got)
			}
			if s.surveys[root] == nil && s.meta.Engine != store.Copy {
				t.Error("the survey was not kept")
			}
			untilLater(t, root)
			outside(t, root, ":\n"+c.after)
			if got := marked(t, s); !slices.Equal(got, c.again) {
				t.Errorf("marked again: %q", got)
			}
			err := s.Commit(t.Context())
			_, held := errors.AsType[*HeldError](err)
			if held != c.held || !held && err != nil {
				t.Errorf("commit: %v", err)
			}
		})
	}
}

// A survey of a root that has changed just now is not kept: the next change could have the same time.
func TestSurveyTooYoung(t *testing.T) {
	testenv.Once(t)
	defer func(age func(int64) time.Duration) { tree.SurveyAge = age }(tree.SurveyAge)
	tree.SurveyAge = func(int64) time.Duration { return 1 << 62 }
	s := create(t, project(t, `mkdir a`))
	sandbox(t, s, `echo x >a/x`)
	marked(t, s)
	if len(s.surveys) > 0 {
		t.Error("it was kept")
	}
}

// If the top of a root cannot be listed, nsrun does not know where other files lead, and holds back all changes.
func TestSurveyBlind(t *testing.T) {
	testenv.NeedUser(t) // whom modes stop
	store.NoOpener = true
	defer func() { store.NoOpener = false }()
	for _, closed := range []bool{false, true} { // the first one is the control
		root := project(t, `mkdir a; echo x >a/x`)
		s := create(t, root)
		sandbox(t, s, `echo y >a/x; echo n >a/n`)
		if closed {
			if err := os.Chmod(root, 0o311); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(root, 0o755) })
		}
		var want []string
		if closed {
			want = []string{"a/n", "a/x"}
		}
		if got := marked(t, s); !slices.Equal(got, want) {
			t.Errorf("closed %v, marked %q", closed, got)
		}
		err := s.Commit(t.Context(), "a")
		if _, held := errors.AsType[*HeldError](err); held != closed || !held && err != nil {
			t.Errorf("closed %v: %v", closed, err)
		}
	}
}
