//go:build linux

package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestGiven: a commit holds back what lets other users write to files that run later. Whoever does can choose what is
// executed. It commits the same for other files.
func TestGiven(t *testing.T) {
	testenv.Leaks(t)
	const before = `mkdir -p deep/with/.git deep/without deeper/than; echo >deep/with/a; mkdir -p .git/hooks .git/objects/aa .git/refs .git/info .vscode src; echo ref: refs/heads/x >.git/HEAD
		for f in .git/config .git/hooks/pre-commit .git/hooks/update.sample .git/objects/aa/bb .git/index .vscode/tasks.json .cursor .envrc src/a; do echo >$f; done
		chmod -R u=rwX,go=rX .`
	const acl = `python3 -c 'import os, struct
same, name = 2**32 - 1, "system.posix_acl_default"
entries = (1, 7, same), (4, 7, same), (32, 5, same)
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
`
	for _, tt := range []struct {
		name, run string
		held      []string
	}{
		{"everything", `chmod -R o+w .`, []string{".", ".cursor", ".envrc", ".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", ".git/info", ".git/objects", ".git/refs",
			".vscode", ".vscode/tasks.json", "deep/with", "deep/with/.git"}},
		{"a group", `chmod g+w .git/hooks/pre-commit src/a`, []string{".git/hooks/pre-commit"}},
		{"less than before", `chmod -R go-rwx .`, nil},
		{"only others' reading", `chmod g-rx,o-x .git/hooks .envrc`, nil},
		{"data", `chmod -R o+w .git/objects/aa src; chmod o+w .git/index .git/HEAD`, nil},
		{"a new directory", `umask 0; mkdir .idea new; mkdir new/.vscode; echo >new/a`, []string{".idea", "new/.vscode"}},
		{"a new directory of the owner", `umask 2; mkdir .idea new; echo >new/a`, nil},
		{"a directory in the place of another", `rm -r .git/hooks; mkdir -m 777 .git/hooks`, []string{".git/hooks"}},
		{"a directory in the place of a file", `rm .cursor; mkdir -m 777 .cursor`, []string{".cursor"}},
		{"the project", `chmod o+w . src`, []string{"."}},
		{"what holds a repository", `chmod -R o+w deep; chmod g+w deeper`, []string{"deep/with", "deep/with/.git"}},
		{"what is made later", acl + `for d in (".git/hooks", "src"): os.setxattr(d, name, acl)'`, []string{".git/hooks"}},
		{"a link", `ln -s src/a l; ln -s src .idea`, []string{".idea"}}, // as without these modes
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, before)
			s := create(t, root)
			sandbox(t, s, tt.run)
			var held []string
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				if c.Runs != "" {
					held = append(held, c.Path)
				}
			}
			if !slices.Equal(held, tt.held) {
				t.Fatalf("%q is held back, want %q", held, tt.held)
			}
			modes := func() (list []string) {
				for _, name := range tt.held {
					if st, err := os.Lstat(filepath.Join(root, name)); err == nil {
						acl := make([]byte, 100)
						n, _ := unix.Lgetxattr(filepath.Join(root, name), "system.posix_acl_default", acl)
						list = append(list, fmt.Sprintf("%v %x", st.Mode(), acl[:max(n, 0)]))
					}
				}
				return list
			}
			was := modes()
			_ = s.Commit(t.Context()) // the error names what is held back
			if now := modes(); !slices.Equal(now, was) {
				t.Errorf("%v, and was %v", now, was)
			}
			if len(tt.held) == 0 {
				return
			}
			if err := s.CommitWith(t.Context(), CommitOptions{AllowExec: true}); err != nil {
				t.Error(err)
			}
			if now := modes(); slices.Equal(now, was) {
				t.Errorf("%v, after a commit of them", now)
			}
		})
	}
}
