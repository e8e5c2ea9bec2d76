//go:build linux

package overlay

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// inodes returns the inode numbers of everything below dir, by path.
func inodes(t testing.TB, dir string) map[string]uint64 {
	t.Helper()
	list := map[string]uint64{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		rel, _ := filepath.Rel(dir, p)
		err = unix.Lstat(p, &st)
		list[rel] = st.Ino
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// takeScene is a session with something of each kind that is moved. The second value is what was written.
func takeScene(t testing.TB) (s *Session, root string, wrote map[string]uint64) {
	t.Helper()
	root = project(t, `truncate -s 3M big; echo a > kept; mkdir old; echo a > old/f; mkdir -p dir/in; echo a > dir/in/f`)
	s = create(t, root)
	sandbox(t, s, `echo x >> big; mkdir -p new/sub/empty; echo n > new/f; echo n > new/sub/g; ln new/f new/sub/again
ln -s f new/l; mv dir/in/f dir/in/h; rm -r old; echo file > old; truncate -s 2M dir/large; touch -d 2001-02-03 new/sub new dir`)
	return s, root, inodes(t, s.Roots()[0].Upper)
}

// wantMoved fails unless all that wrote has, but what stays or is small, is in the project as the same object.
func wantMoved(t testing.TB, root string, wrote map[string]uint64, want bool) {
	t.Helper()
	now := inodes(t, root)
	for _, p := range []string{"big", "dir/large", "new", "new/f", "new/sub", "new/sub/empty", "new/sub/g", "new/sub/again", "new/l"} {
		if wrote[p] == 0 {
			t.Errorf("%s was not written", p)
		}
		if same := now[p] == wrote[p]; same != want {
			t.Errorf("%s: the session's own object: %v, want %v", p, same, want)
		}
	}
}

func marksBelow(t testing.TB, dir string) (list []string) {
	t.Helper()
	for p := range inodes(t, dir) {
		buf := make([]byte, 1024)
		n, err := unix.Llistxattr(filepath.Join(dir, p), buf)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(buf[:n], []byte("overlay.")) {
			list = append(list, p)
		}
	}
	return list
}

// TestTaken: what is large, and new directories, is moved by a commit of all, and moved back by undo.
func TestTaken(t *testing.T) {
	testenv.Leaks(t)
	s, root, wrote := takeScene(t)
	upper := s.Roots()[0].Upper
	if marksBelow(t, upper) == nil {
		t.Error("the control: no written file has a mark")
	}
	project, session := prints(t, root), prints(t, upper)
	commitAll(t, s)
	wantMoved(t, root, wrote, true)
	if list := marksBelow(t, root); list != nil {
		t.Errorf("marks of overlayfs in the project: %q", list)
	}
	committed := prints(t, root)
	if err := undoIt(s); err != nil {
		t.Fatal(err)
	}
	wantSame(t, strings.Join(prints(t, root), "\n"), strings.Join(project, "\n"))
	wantSame(t, strings.Join(prints(t, upper), "\n"), strings.Join(session, "\n"))
	commitAll(t, s)
	wantMoved(t, root, wrote, true)
	wantSame(t, strings.Join(prints(t, root), "\n"), strings.Join(committed, "\n"))
}

// TestTakenApart: a commit of a part copies files instead of moving them, because commands may still run over the rest.
// So does a commit of a session that another one is based on.
func TestTakenApart(t *testing.T) {
	testenv.Leaks(t)
	s, root, wrote := takeScene(t)
	commitAll(t, s, filepath.Join(root, "big"), filepath.Join(root, "new"), filepath.Join(root, "dir/large"))
	wantMoved(t, root, wrote, false)

	s, root, wrote = takeScene(t)
	above := stack(t, s, root)
	s = reopen(t, s)
	commitAll(t, s)
	wantMoved(t, root, wrote, false)
	wantChanges(t, above)
}

// TestTakenOpen: what somebody else still has open, or mapped, is copied. Otherwise he could write to the project.
func TestTakenOpen(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hold  func(t *testing.T, p string) (write func())
		taken bool
	}{
		{"nobody has it open", func(t *testing.T, p string) func() {
			return func() {
				if _, err := os.OpenFile(p, os.O_RDWR, 0); !os.IsNotExist(err) {
					t.Errorf("the upper directory still has it: %v", err)
				}
			}
		}, true},
		{"open for writing", func(t *testing.T, p string) func() {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return func() {
				if _, err := f.WriteAt([]byte("later"), 0); err != nil {
					t.Error(err)
				}
			}
		}, false},
		{"open for reading", func(t *testing.T, p string) func() {
			f, err := os.Open(p)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return func() { // it can be opened again
				w, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if _, err := w.WriteAt([]byte("later"), 0); err != nil {
					t.Error(err)
				}
			}
		}, false},
		{"mapped", func(t *testing.T, p string) func() {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			data, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Munmap(data) })
			return func() { copy(data, "later") }
		}, false},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			s, root, wrote := takeScene(t)
			write := tt.hold(t, filepath.Join(s.Roots()[0].Upper, "big"))
			commitAll(t, s)
			if got := inodes(t, root)["big"] == wrote["big"]; got != tt.taken {
				t.Errorf("moved: %v, want %v", got, tt.taken)
			}
			write()
			data, err := os.ReadFile(filepath.Join(root, "big"))
			if err != nil || bytes.HasPrefix(data, []byte("later")) {
				t.Errorf("a later write reached the project, %v", err)
			}
		})
	}
}

// TestTakenNot: an object with something that a copy would not have is copied.
func TestTakenNot(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		change       func(upper string) error
	}{
		{"a name elsewhere", `ln new/f dir/f2`, nil},
		{"a FIFO", `mkfifo new/fifo`, nil},
		{"a name that was deleted", ``, func(upper string) error { return unix.Mknod(upper+"/new/white", unix.S_IFCHR, 0) }},
		{"an attribute of the system", ``, func(upper string) error {
			err := unix.Setxattr(upper+"/new/f", "trusted.x", []byte("1"), 0)
			if err == unix.EPERM {
				err = unix.Mknod(upper+"/new/white", unix.S_IFCHR, 0) // it takes root
			}
			return err
		}},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			s, root, wrote := takeScene(t)
			if tt.script != "" {
				sandbox(t, s, tt.script)
			}
			if tt.change != nil {
				if err := tt.change(s.Roots()[0].Upper); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.CommitWith(t.Context(), CommitOptions{AllowSpecial: true}); err != nil {
				t.Fatal(err)
			}
			now := inodes(t, root)
			if now["new"] == wrote["new"] {
				t.Error("the directory was moved")
			}
			if now["big"] != wrote["big"] {
				t.Error("another file was not moved")
			}
			if _, err := os.Lstat(root + "/new/white"); err == nil {
				t.Error("the mark of a deleted name is in the project")
			}
			if _, err := unix.Getxattr(root+"/new/f", "trusted.x", nil); err != unix.ENODATA {
				t.Errorf("an attribute that no copy has is in the project: %v", err)
			}
		})
	}
}

// TestCommitNumbers: where a file system gives what is renamed another inode number, a commit does nothing, and says
// so.
func TestCommitNumbers(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `echo a >f; mkdir d; echo a >d/f`)
	was := look(t, root)
	s := create(t, root)
	saw := sandbox(t, s, `echo b >f; mv d e; mkdir n; echo n >n/n`)
	defer func(keeps func(*tree.Handle) error) { tx.KeepsNumbers = keeps }(tx.KeepsNumbers)
	keeps := tx.KeepsNumbers
	tx.KeepsNumbers = func(*tree.Handle) error { return tree.ErrNumbers }
	if err := s.Commit(t.Context()); !errors.Is(err, ErrNumbers) || !strings.Contains(err.Error(), root) {
		t.Errorf("%v", err)
	}
	wantSame(t, look(t, root), was)
	tx.KeepsNumbers = keeps
	commitAll(t, s)
	wantSame(t, look(t, root), saw)
}
