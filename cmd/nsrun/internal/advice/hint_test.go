//go:build linux

package advice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

// TestHints: what the system refused an operation on a session has a hint of its own.
func TestHints(t *testing.T) {
	const space = "try: nsrun gc --older 0, which frees space at the price of undo"
	state := filepath.Join(t.TempDir(), "nsrun", "sessions")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Dir(filepath.Dir(state)))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&overlay.Error{Op: "commit", Path: "/p", Err: unix.EROFS}, "the session stays; try: nsrun diff --patch, for another copy of the project"},
		{&overlay.Error{Op: "undo", Path: "/p", Err: unix.EROFS}, "the session stays; try: nsrun diff --patch, for another copy of the project"},
		{&overlay.Error{Op: "look at", Path: "/p", Err: unix.EROFS}, ""},
		{&overlay.Error{Op: "read session", Path: "/s/20260101T000000Z-cccccccc", Err: overlay.ErrLost},
			"copy from there what you need; try: nsrun gc 20260101T000000Z-cccccccc, which removes it"},
		{&overlay.Error{Op: "read session", Path: "/s/20260101T000000Z-cccccccc", Err: unix.EACCES}, ""},
		{&overlay.Error{Op: "commit", Path: "/p/x", Err: unix.ENAMETOOLONG}, "try: nsrun commit --exclude PATH"},
		{&overlay.Error{Op: "copy", Path: "/p/a link", Err: overlay.ErrNoLinks}, "try: nsrun commit --exclude '/p/a link'"},
		{&overlay.Error{Op: "commit to", Path: "/p", Err: overlay.ErrTimes},
			"the session stays; try: nsrun diff --patch, and git apply, or nsrun run --direct"},
		{&overlay.Error{Op: "begin commit", Path: state, Err: unix.ENOSPC}, space},
		{fmt.Errorf("%w; nothing was done", &fs.PathError{Op: "copy", Path: state + "/p/f", Err: unix.EDQUOT}), space},
		{errors.Join(errors.New("put back"), &fs.PathError{Op: "put back", Path: state + "/p/f", Err: unix.ENOSPC}), space},
		{&overlay.Error{Op: "copy", Path: "/proc/p/f", Err: unix.ENOSPC}, ""}, // another disk than the sessions'
		{fmt.Errorf("watch: %w", unix.ENOSPC), ""},                            // the limit on watches
		{&fs.PathError{Op: "copy", Path: "/p/f", Err: unix.EIO}, ""},
	} {
		if got := For(tt.err); got != tt.want {
			t.Errorf("%v: %q, not %q", tt.err, got, tt.want)
		}
	}
}

// TestOwnerHint: the owner of a file can give it another group. What is not in the project is left out.
func TestOwnerHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:       fmt.Sprintf("try: chgrp %d %s, and then again", os.Getegid(), file),
		file + "2": "try: nsrun commit --exclude " + file + "2",
	} {
		err := &overlay.Error{Op: "copy", Path: path, Err: &overlay.OwnerError{Group: true, Err: unix.EPERM}}
		if got := For(err); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

// TestClosedHint: a directory that its owner has closed is named, however far up it is.
func TestClosedHint(t *testing.T) {
	top := t.TempDir()
	closed := filepath.Join(top, "d")
	if err := os.MkdirAll(filepath.Join(closed, "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	want := "try: chmod u+rwx " + closed + ", and then again"
	hints := map[string]string{closed: want, closed + "/f": want, top: "", top + "/f": ""}
	if os.Geteuid() != 0 { // to whom nothing is closed
		hints[closed+"/e/f"] = want
	}
	for path, want := range hints {
		for _, op := range [...]string{"list", "look at"} {
			if got := For(&overlay.Error{Op: op, Path: path, Err: unix.EACCES}); got != want {
				t.Errorf("%s %s: %q, not %q", op, path, got, want)
			}
		}
	}
}

// TestSharedHint: a directory that everybody can write to gets another mode, except where a file system has none to
// give. Then sessions go to a directory in which nobody else can remove them.
func TestSharedHint(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	e := &overlay.Error{Op: "open state directory", Path: dir}
	for fixed, want := range map[bool]string{false: "try: chmod o-w " + dir, true: "try: export XDG_STATE_HOME=/"} {
		if got := sharedHint(e, "$HOME", func(string) bool { return !fixed }); !strings.Contains(got, want) {
			t.Errorf("%v: %s", fixed, got)
		}
	}
	if !modesFixed(unix.MSDOS_SUPER_MAGIC) || !modesFixed(unix.FUSE_SUPER_MAGIC) || modesFixed(unix.EXT4_SUPER_MAGIC) || modesFixed(unix.TMPFS_MAGIC) {
		t.Error("the types of file systems")
	}
}
