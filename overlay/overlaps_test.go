//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Conflicts are decided path by path, the last choice first, and tell why they could not be merged.
func TestChoices(t *testing.T) {
	testenv.Leaks(t)
	const numbers = `seq 9 >d/a; seq 9 >d/b; seq 9 >c; seq 9 >kept; `
	for name, c := range map[string]struct {
		prefer  Preference
		choices []Choice
		paths   string // of the conflicts that are left, with why
		want    string // first lines of d/a, d/b, c
	}{
		"none":           {Refuse, nil, "c <nil> d/a <nil> d/b <nil>", ""},
		"merge":          {Merge, nil, "d/b " + ErrOverlap.Error(), ""},
		"one":            {Refuse, []Choice{{"c", Theirs}}, "d/a <nil> d/b <nil>", ""},
		"a directory":    {Merge, []Choice{{"d", Theirs}}, "", "s s M"},
		"a pattern":      {Refuse, []Choice{{"d/*", Ours}, {"**/c", Theirs}}, "", "1 p s"},
		"the last":       {Theirs, []Choice{{"d/*", Ours}, {"d/a", Merge}}, "", "M p s"},
		"refused":        {Theirs, []Choice{{"d/b", Refuse}}, "d/b <nil>", ""},
		"not a change":   {Theirs, []Choice{{"nowhere", Ours}}, "!", ""},
		"not a conflict": {Theirs, []Choice{{"kept", Ours}}, "", "s s s"},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, `mkdir d; `+numbers)
			s := create(t, root)
			sandbox(t, s, `for i in d/a d/b c; do sed -i s/^1$/s/ $i; done; echo 1 >kept`)
			preserve(t, s)
			untilNewer(t, s, root)
			outside(t, root, `sed -i s/^1$/p/ d/b; sed -i s/^9$/p9/ d/a c`)
			before := noDirTimes(look(t, root))
			err := s.CommitWith(context.Background(), CommitOptions{Prefer: c.prefer, Choices: c.choices})
			var ce *ConflictError
			if errors.As(err, &ce) {
				var got []string
				for _, k := range ce.Conflicts {
					why := "<nil>"
					if k.Unmerged != nil {
						why = k.Unmerged.Error()
					}
					got = append(got, k.Path+" "+why)
				}
				if text := strings.Join(got, " "); text != c.paths {
					t.Errorf("conflicts: %s", text)
				}
				wantSame(t, noDirTimes(look(t, root)), before)
				return
			}
			if c.paths == "!" && errors.Is(err, ErrNoChange) {
				wantSame(t, noDirTimes(look(t, root)), before)
				return
			}
			if err != nil || c.paths != "" {
				t.Fatalf("instead of conflicts in %q: %v", c.paths, err)
			}
			var got []string
			for _, f := range []string{"d/a", "d/b", "c"} {
				data, err := os.ReadFile(filepath.Join(root, f))
				if err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(string(data), "\n")
				if strings.Contains(string(data), "p9") && first == "s" {
					first = "M"
				}
				got = append(got, first)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%s, not %s", text, c.want)
			}
		})
	}
}

// A conflict shows the lines that exclude each other, with the version that both sides began with, if that was kept.
func TestOverlaps(t *testing.T) {
	testenv.Leaks(t)
	for _, kept := range []bool{true, false} {
		root := project(t, `seq 9 >f; printf 'a\0' >bin; echo 1 >gone`)
		s := create(t, root)
		sandbox(t, s, `sed -i 's/^3$/s/; s/^9$/s/' f; printf 'b\0' >bin; echo 2 >gone`)
		if kept {
			preserve(t, s)
		}
		untilNewer(t, s, root)
		outside(t, root, `sed -i '1d; s/^3$/p/; s/^6$/p/' f; printf 'c\0' >bin; rm gone`)
		err := s.CommitWith(t.Context(), CommitOptions{Prefer: Merge})
		var ce *ConflictError
		if !errors.As(err, &ce) {
			t.Fatal(err)
		}
		for _, k := range ce.Conflicts {
			hunks, err := s.Overlaps(k)
			want, why, unmerged := []Hunk(nil), ErrNotText, ErrNotText
			switch {
			case k.Path == "gone":
			case k.Path == "f" && kept:
				want = []Hunk{{Line: 2, Base: []string{"3"}, Project: []string{"p"}, Session: []string{"s"}}}
				why, unmerged = nil, ErrOverlap
			case k.Path == "f":
				want = []Hunk{
					{Line: 1, Session: []string{"1"}},
					{Line: 2, Project: []string{"p"}, Session: []string{"s"}},
					{Line: 5, Project: []string{"p"}, Session: []string{"6"}},
					{Line: 8, Project: []string{"9"}, Session: []string{"s"}},
				}
				why, unmerged = ErrNoBase, ErrNoBase
			}
			if !errors.Is(err, why) || (err == nil) != (why == nil) || len(hunks)+len(want) > 0 && !reflect.DeepEqual(hunks, want) {
				t.Errorf("kept %v, %s: %+v, %v", kept, k.Path, hunks, err)
			}
			if k.Path != "gone" && !errors.Is(k.Unmerged, unmerged) {
				t.Errorf("kept %v, %s: %v", kept, k.Path, k.Unmerged)
			}
		}
	}
}

// A file that was rewritten with the same content is no conflict, unless something else about it changed.
func TestWrittenAsItWas(t *testing.T) {
	for script, conflict := range map[string]bool{
		`cat f >x; cat x >f; rm x`:             false,
		`cp f x; mv x f`:                       false,
		`touch f`:                              false,
		`chmod 600 f; chmod 644 f`:             false,
		`chmod 600 f`:                          true,
		`echo 2 >f; echo 1 >f`:                 false,
		`echo 2 >f`:                            true,
		`setfattr -n user.a -v 1 f || echo >f`: true,
	} {
		root := project(t, `echo 1 >f`)
		s := create(t, root)
		sandbox(t, s, `echo s >f`)
		preserve(t, s)
		untilNewer(t, s, root)
		outside(t, root, script)
		err := s.Commit(t.Context())
		var ce *ConflictError
		if got := errors.As(err, &ce); got != conflict || !got && err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// An undo finds what a commit merged: the last ctimes are the commit's, whichever object has them.
func TestUndoMerged(t *testing.T) {
	testenv.Leaks(t)
	for range 30 {
		root := project(t, `seq 9 >f`)
		s := create(t, root)
		sandbox(t, s, `sed -i 's/^1$/s/' f`)
		preserve(t, s)
		outside(t, root, `sed -i 's/^9$/p/' f`)
		if err := s.CommitWith(t.Context(), CommitOptions{Prefer: Merge}); err != nil {
			t.Fatal(err)
		}
		if err := undoIt(s); err != nil {
			t.Fatal(err)
		}
	}
}
