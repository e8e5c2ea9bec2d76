//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLinksStay: what was linked in the sandbox, as by cp -al and rsync --link-dest, is linked to the project's files,
// also to those that have several names.
func TestLinksStay(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir src; echo two > src/a; ln src/a src/b; echo one > src/x; echo other > src/y; ln src/y src/z; echo equal > e1; echo equal > e2
ln -s text src/s; ln -s equal s1; ln -s equal s2; mkfifo src/p; ln -s two t; ln -P t src/t`)
	before := inodes(t, root)
	s := create(t, root)
	sandbox(t, s, `cp -al src dst; mkdir part; ln src/a part/a; echo more >> dst/y; echo n > n; ln n part/n; ln -f e1 e2
ln -Pf s1 s2; ln -P src/t part/t; rm t`)
	list := prints(t, root)
	same := func(when string, groups ...[]string) {
		t.Helper()
		now := inodes(t, root)
		for i, group := range groups {
			for _, p := range group {
				if now[p] == 0 || now[p] != now[group[0]] {
					t.Errorf("%s: %s is not the same file as %s", when, p, group[0])
				}
			}
			for _, other := range groups[:i] {
				if now[group[0]] == now[other[0]] {
					t.Errorf("%s: %s is the same file as %s", when, group[0], other[0])
				}
			}
		}
		for _, p := range []string{"src/a", "src/b", "src/x", "src/z"} {
			if now[p] != before[p] {
				t.Errorf("%s: %s is another file", when, p)
			}
		}
	}
	// Of links and FIFOs, too. y was written to: the command saw that z did not change.
	want := [][]string{{"src/a", "src/b", "dst/a", "dst/b", "part/a"}, {"src/x", "dst/x"}, {"src/y", "dst/y"}, {"src/z", "dst/z"}, {"n", "part/n"}, {"e1", "e2"},
		{"src/s", "dst/s"}, {"s1", "s2"}, {"src/p", "dst/p"}, {"src/t", "dst/t", "part/t"}}
	for range 2 {
		commitAll(t, s)
		same("committed", want...)
		if err := undoIt(s); err != nil {
			t.Fatal(err)
		}
		if d := difference(prints(t, root), list); len(d) > 0 {
			t.Errorf("undo: %q", d)
		}
	}
	// That the files got names and lost them is no change by somebody else.
	sandbox(t, s, `echo changed > src/b; echo changed > src/x`)
	commitAll(t, s)
	if data, err := os.ReadFile(filepath.Join(root, "src/b")); err != nil || !slices.Equal(data, []byte("changed\n")) {
		t.Errorf("%q, %v", data, err)
	}
}

// TestLinkRetimed: of a file with two names, one got a third name and another time. It is another file then, and what
// was linked to it is linked to it still.
func TestLinkRetimed(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `echo two > a; ln a e; echo two > f; ln f f2; mkfifo p; ln p q; ln -s x s; ln -P s t; echo two > g; echo two > h; ln h i`)
	list := prints(t, root)
	s := create(t, root)
	sandbox(t, s, `ln e c; ln e z; touch -d 2001-02-03 e; ln -f f f2; touch -d 2001-02-03 f; ln q c2; touch -d 2001-02-03 q; ln -P t c3; touch -hd 2001-02-03 t
ln -f h g; touch -d 2001-02-03 h`)
	for range 2 {
		commitAll(t, s)
		now := inodes(t, root)
		for _, same := range [][]string{{"e", "c", "z"}, {"f", "f2"}, {"q", "c2"}, {"t", "c3"}, {"g", "h"}} {
			for _, p := range same[1:] {
				if now[p] != now[same[0]] {
					t.Errorf("%s is not the same file as %s", p, same[0])
				}
			}
		}
		for _, other := range [][2]string{{"a", "e"}, {"p", "q"}, {"s", "t"}, {"h", "i"}} {
			if now[other[0]] == now[other[1]] {
				t.Errorf("%s is the same file as %s", other[0], other[1])
			}
		}
		if st, err := os.Lstat(filepath.Join(root, "z")); err != nil || st.ModTime().Year() != 2001 {
			t.Errorf("%v, %v", st, err)
		}
		if err := undoIt(s); err != nil {
			t.Fatal(err)
		}
		if d := difference(prints(t, root), list); len(d) > 0 {
			t.Errorf("undo: %q", d)
		}
	}
	// Alone, a new name is a copy: the project's file keeps its time.
	sandbox(t, s, `rm c z; ln e c`)
	if err := s.CommitWith(t.Context(), CommitOptions{Paths: []string{filepath.Join(root, "c")}}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(filepath.Join(root, "a")); err != nil || st.ModTime().Year() == 2001 {
		t.Errorf("%v, %v", st, err)
	}
}

// TestLinksInLaterCommands: what one command of a session linked is linked in the next commands, with all engines, and
// so keeps its links when one of its names is moved.
func TestLinksInLaterCommands(t *testing.T) {
	testenv.Leaks(t)
	for _, e := range enginesHere(t) {
		t.Run(e.String(), func(t *testing.T) {
			root := project(t, `echo one > f; ln -s text s; mkfifo p; echo two > n`)
			list := prints(t, root)
			session := createWith(t, e, root)
			sandbox(t, session, `ln f f2; ln -P s s2; ln p p2; ln -s new l; ln -P l l2; rm n`)
			if err := session.Resume(nil); err != nil {
				t.Fatal(err)
			}
			sandbox(t, session, `[ $(stat -c %h f2) = 2 ] && [ $(stat -c %h s2) = 2 ] && [ $(stat -c %h p2) = 2 ] && [ $(stat -c %h l2) = 2 ] || exit 1; mkdir d; mv f s l p d`)
			commitAll(t, session)
			now := inodes(t, root)
			for _, name := range []string{"f", "s", "l", "p"} {
				if now["d/"+name] == 0 || now["d/"+name] != now[name+"2"] {
					t.Errorf("d/%s and %s2 are not one file", name, name)
				}
			}
			if err := undoIt(session); err != nil {
				t.Fatal(err)
			}
			if d := difference(prints(t, root), list); len(d) > 0 {
				t.Errorf("undo: %q", d)
			}
		})
	}
}
