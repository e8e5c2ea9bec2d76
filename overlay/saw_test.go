//go:build linux

package overlay

import (
	"errors"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// A change that the command saw when it began is no conflict. A change that it cannot have seen is one, however the
// session got the file.
func TestSawTheEdit(t *testing.T) {
	testenv.Once(t)
	testenv.Leaks(t)
	const edit = `sed -i 's/^1$/mine/' f`
	for name, c := range map[string]struct {
		first, between, second, after string
		conflict, merges              bool
	}{
		"read and changed":            {`echo 1 >x`, edit, `sed -i 's/^9$/s/' f`, ``, false, true},
		"in place":                    {`:`, edit, `cat f >x; echo s >>f; rm x`, ``, false, true},
		"in a directory":              {`echo 1 >d/x`, `echo mine >d/f`, `echo s >>d/f`, ``, false, true},
		"changed again, elsewhere":    {`:`, edit, `sed -i 's/^9$/s/' f`, `sed -i 's/^5$/mine/' f`, true, true},
		"changed again, there":        {`:`, edit, `sed -i 's/^9$/s/' f`, `sed -i 's/^9$/mine/' f`, true, false},
		"written before":              {`echo s >>f`, edit, `echo s >>f`, ``, true, true},
		"copied up before":            {`touch f`, edit, `sed -i 's/^9$/s/' f`, ``, true, false},
		"opened for writing before":   {`: >>f`, edit, `sed -i 's/^9$/s/' f`, ``, true, false},
		"made before":                 {`echo s >new`, `echo mine >new`, `echo s >>new`, ``, true, false},
		"removed before":              {`rm f`, edit, `echo s >f`, ``, true, false},
		"its directory removed":       {`rm -r d`, `echo mine >d/f`, `mkdir d; echo s >d/f`, ``, true, false},
		"its directory made again":    {`rm -r d; mkdir d`, `echo mine >d/f`, `echo s >d/f`, ``, true, false},
		"moved there before":          {`cp f x; mv x f; echo s >>f`, edit, `echo s >>f`, ``, true, true},
		"a name of what it wrote":     {`ln f g; echo s >>g`, edit, `sed -i 's/^9$/t/' f`, ``, true, true},
		"nothing written in that one": {`echo s >>f`, edit, `:`, ``, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, `seq 9 >f; mkdir d; echo 1 >d/f; echo 1 >d/g`)
			s := create(t, root)
			sandbox(t, s, c.first)
			preserve(t, s)
			untilNewer(t, s, root)
			outside(t, root, c.between)
			untilNewer(t, s, root)
			if err := s.Resume([]string{"second"}); err != nil {
				t.Fatal(err)
			}
			sandbox(t, s, c.second)
			preserve(t, s)
			outside(t, root, ":\n"+c.after)
			err := s.Commit(t.Context())
			var ce *ConflictError
			if got := errors.As(err, &ce); got != c.conflict && s.meta.Engine == store.Overlay || !got && err != nil {
				t.Fatal(err)
			}
			if !c.conflict {
				return
			}
			err = s.CommitWith(t.Context(), CommitOptions{Prefer: Merge})
			if got := errors.As(err, &ce); got == c.merges && s.meta.Engine == store.Overlay || !got && err != nil {
				t.Errorf("merge: %v", err)
			}
		})
	}
}

// A command that ran while a change was made counts as having seen it, as far as that can be told, if the file that it
// wrote contains all of the change.
func TestSawWhileRunning(t *testing.T) {
	for script, merges := range map[string]bool{
		`echo s >>f`:           true,
		`sed -i 's/^9$/s/' f`:  false, // it may have read the file before
		`seq 9 >f; echo s >>f`: false,
	} {
		root := project(t, `seq 9 >f`)
		s := create(t, root)
		untilNewer(t, s, root)
		outside(t, root, `sed -i 's/^1$/mine/' f`)
		untilNewer(t, s, root)
		sandbox(t, s, script)
		preserve(t, s)
		if err := s.Commit(t.Context()); !errors.As(err, new(*ConflictError)) {
			t.Errorf("%s: %v", script, err)
		}
		err := s.CommitWith(t.Context(), CommitOptions{Prefer: Merge})
		if got := !errors.As(err, new(*ConflictError)); got != merges && s.meta.Engine == store.Overlay || got && err != nil {
			t.Errorf("%s, merged: %v", script, err)
		}
	}
}
