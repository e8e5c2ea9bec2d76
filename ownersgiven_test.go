//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestOwnersOfHooks: a commit does not give others what runs later, whether by owner, group or access control list.
// (Control: other files are given to them.)
func TestOwnersOfHooks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", ".envrc: x\n", ".git/hooks/pre-commit: x\n", ".git/HEAD: ref: refs/heads/x\n", ".git/objects/", ".git/refs/")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	for _, script := range []string{
		"chown 1234 f .envrc .git/hooks .git/hooks/pre-commit",
		"chgrp 1234 f .envrc .git/hooks .git/hooks/pre-commit; chmod g+w .envrc .git/hooks .git/hooks/pre-commit",
		"chown 1234 f; python3 -c '" + `import os, struct
same, names = 2**32 - 1, (".envrc", ".git/hooks", ".git/hooks/pre-commit")
entries = (1, 7, same), (2, 7, 1234), (4, 5, same), (16, 7, same), (32, 5, same)
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
for n in names: os.setxattr(n, "system.posix_acl_access", acl)` + "'",
	} {
		r := runner(t, nsrun.Config{Project: p})
		if got := printed(t, r, "("+script+") && echo fine"); got != "fine\n" {
			t.Fatalf("%s: %s", script, got)
		}
		_ = r.Commit(t.Context(), overlay.CommitOptions{}) // the error names what is held back
		for _, name := range []string{".envrc", ".git/hooks", ".git/hooks/pre-commit"} {
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(p, name), &st); err != nil || st.Uid != 0 || st.Mode&0o022 != 0 {
				t.Errorf("%s: %s: %v, owner %d, mode %o", script, name, err, st.Uid, st.Mode)
			}
		}
		if got := owner(t, p, "f"); got == "0:0" {
			t.Errorf("%s: nothing was committed", script)
		}
		if err := errors.Join(r.Discard(t.Context()), os.Chown(filepath.Join(p, "f"), 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
}
