//go:build linux

package overlay

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// bound returns a directory that shows another one, seen, with options of bindfs.
func bound(t *testing.T, options ...string) (seen, dir string) {
	t.Helper()
	top := tempDir(t)
	seen, dir = filepath.Join(top, "seen"), filepath.Join(top, "bound")
	for _, name := range []string{seen, dir} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("bindfs", append(options, "--no-allow-other", seen, dir)...).CombinedOutput(); err != nil {
		testenv.Skip(t, "bindfs", err.Error()+": "+string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("fusermount", "-u", dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return seen, dir
}

// TestOwnModes: some file systems have modes and owners of their own, and ignore or refuse others: NTFS, FAT, and the
// shares of hosts of virtual machines. There a commit can be made and taken back. The control has what it is given.
func TestOwnModes(t *testing.T) {
	for name, options := range map[string][]string{
		"all":     nil,
		"modes":   {"--perms=a+rwX", "--chmod-ignore"},
		"private": {"--perms=go=", "--chmod-ignore"},
		"group":   {fmt.Sprintf("--force-group=%d", os.Getegid()+1), "--chown-deny", "--chgrp-deny"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Leaks(t)
			seen, root := bound(t, options...)
			outside(t, root, `echo a >f; echo gone >gone; mkdir d; echo a >d/f`)
			was := look(t, root)
			s := createWith(t, EngineCopy, root) // over ids that it does not know, the namespace of a test has no overlay
			sandbox(t, s, `echo b >f; rm gone; mkdir -m 750 n n/n; echo n >n/n/n; echo new >new; chmod 640 new; ln -s f l; chmod 700 d`)
			for range 2 {
				commitAll(t, s)
				outside(t, root, `[ "$(cat f n/n/n new l)" = "$(printf 'b\nn\nnew\nb')" ] && [ ! -e gone ]`)
				// The time of a change of attributes is later than the commit, as by a clock that counts in smaller steps.
				outside(t, seen, `chmod "$(stat -c %a new)" new`)
				if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
					t.Fatal(err)
				}
				wantSame(t, look(t, root), was)
			}
			commitAll(t, s)
			outside(t, root, `echo more >>new`)
			if err := s.Undo(t.Context(), UndoOptions{}); err == nil {
				t.Error("an undo removed what somebody wrote since")
			}
		})
	}
}

// TestLinksKept: on a file system of FUSE, nothing is set of a new symbolic link, because some would set that of the
// file to which it leads. The control is a file, which has its time.
func TestLinksKept(t *testing.T) {
	testenv.Leaks(t)
	_, root := bound(t)
	s := create(t, root)
	sandbox(t, s, `ln -s nothing l; echo f >f; touch -hd @1000000000 l f`)
	commitAll(t, s)
	for name, want := range map[string]bool{"l": false, "f": true} {
		fi, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.ModTime().Unix() == 1_000_000_000; got != want {
			t.Errorf("%s has the time %v", name, fi.ModTime())
		}
	}
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
}
