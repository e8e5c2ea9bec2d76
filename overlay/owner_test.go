//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// owned is a session in which a command changed the file f and the directory d, as if the project had given them this
// owner and group when it began.
func owned(t *testing.T, uid, gid uint32) *Session {
	t.Helper()
	testenv.NeedUser(t) // root may give files to everybody
	s := createWith(t, EngineCopy, project(t, `echo a >f; mkdir d; echo b >g`))
	runHelper(t, helperInput{s.Mounts(), `echo more >>f; chmod 750 d; echo c >g`, []string{s.Roots()[0].Path}})
	for _, name := range []string{"f", "d"} {
		n := s.copies[0].Low.Child(name)
		n.Stat.UID, n.Stat.GID = uid, gid
	}
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOwner: if a file cannot get its owner or group back, the error says so, and nothing is done.
func TestOwner(t *testing.T) {
	testenv.Leaks(t)
	s := owned(t, 0, 0)
	root := s.Roots()[0].Path
	was := look(t, root)
	err := s.Commit(t.Context())
	owner, _ := errors.AsType[*OwnerError](err)
	if owner == nil || owner.UID != 0 || owner.Group || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "/f: it belongs to user 0 and group 0: ") {
		t.Errorf("%v", err)
	}
	if now := look(t, root); now != was {
		t.Error("the project was changed:")
		wantSame(t, now, was)
	}
	commitAll(t, s, "g")
}

// TestGroupGone: a file whose group its owner has changed since the session began keeps the new group, for the command
// could not have given it the old one.
func TestGroupGone(t *testing.T) {
	testenv.Leaks(t)
	s := owned(t, uint32(os.Geteuid()), 0)
	root := s.Roots()[0].Path
	was := look(t, root)
	for range 2 {
		commitAll(t, s)
		for name, mode := range map[string]uint32{"f": 0o644, "d": 0o750} {
			var st unix.Stat_t
			if err := unix.Lstat(root+"/"+name, &st); err != nil || int(st.Gid) != os.Getegid() || st.Mode&0o777 != mode {
				t.Errorf("%s: group %d, mode %o, %v", name, st.Gid, st.Mode, err)
			}
		}
		if data, err := os.ReadFile(root + "/f"); string(data) != "a\nmore\n" {
			t.Errorf("%q, %v", data, err)
		}
		if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
			t.Fatal(err)
		}
		if now := look(t, root); now != was {
			wantSame(t, now, was)
		}
	}
}

// TestOwnerText: only the group is named if only the group is the reason.
func TestOwnerText(t *testing.T) {
	err := public(&fs.PathError{Op: "copy", Path: "/p/f", Err: &tree.OwnerError{UID: uint32(os.Geteuid()), GID: 7, Err: unix.EPERM}})
	if want := "copy /p/f: it belongs to group 7, and you are not in that group: operation not permitted"; err.Error() != want {
		t.Errorf("%q, not %q", err, want)
	}
}
