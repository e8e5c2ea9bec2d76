//go:build linux

package overlay

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLostRepository: a commit of everything does not replace the project's own repository by another one, nor does it
// remove its history. Naming .git commits that. (Control: what git itself removes is committed, and so is the same
// elsewhere.)
func TestLostRepository(t *testing.T) {
	testenv.Leaks(t)
	const before = `export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
		git init -q . && echo 1 >f && git add f && git commit -q -m 1 && git branch other && echo 2 >f && git commit -q -a -m 2 && git init -q sub && echo x >sub/f
		`
	const large = `awk 'BEGIN { for (i = 0; i < 40000; i++) printf "blob\ndata %d\n%s\n", length(i ""), i }' | git fast-import --quiet`
	const as = `export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `
	for _, tt := range []struct {
		name, first, run string
		lost             bool
	}{
		{"another", "", `rm -rf .git; git init -q .`, true},
		{"another with a commit", "", `rm -rf .git; git init -q .; git add f; git commit -q -m new`, true},
		{"another, packed", "git gc -q", `rm -rf .git; git init -q .; git add f; git commit -q -m new; git gc -q`, true},
		{"moved away", "", `mv .git old; git init -q .`, true},
		{"all in it", "", `rm -rf .git/*; git init -q .`, true},
		{"its objects", "", `rm -rf .git/objects; mkdir .git/objects`, true},
		{"a packed repository's objects", "git gc -q", `rm -rf .git/objects; mkdir .git/objects`, true},
		{"what is not packed", "git gc -q; echo 3 >f; git commit -q -a -m 3", `rm -rf .git/objects/[0-9a-f][0-9a-f]`, true},
		{"one of two packs", "git gc -q; ls .git/objects/pack >.git/first; echo 3 >f; git commit -q -a -m 3; git repack -q -d",
			`cd .git/objects/pack; for f in *; do grep -q $f ../../first || rm $f; done; cd ../../..`, true},
		{"what is beside a large pack", large, `rm -rf .git/objects/[0-9a-f][0-9a-f]`, true},
		{"packed beside a large pack", large, `git repack -q -d; ls .git/objects/[0-9a-f][0-9a-f] && exit 1`, false},
		{"packed", "", `git gc -q`, false},
		{"packed beside another pack", "git gc -q; echo 3 >f; git commit -q -a -m 3", `git repack -q -d; ls .git/objects/[0-9a-f][0-9a-f] && exit 1`, false},
		{"packed before", "git repack -q", `git prune-packed; ls .git/objects/[0-9a-f][0-9a-f] && exit 1`, false},
		{"packed again", "git gc -q", `echo 3 >f; git commit -q -a -m 3; git repack -q -a -d`, false},
		{"a commit", "", `echo 3 >f; git commit -q -a -m 3; git branch -D -q other`, false},
		{"moved there and back", "", `mv .git old; mv old .git; echo 3 >f; git commit -q -a -m 3`, false},
		{"elsewhere", "", `cd sub; rm -rf .git; git init -q .; echo y >f; cd ..`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, before+tt.first)
			commits := func() int {
				git := exec.Command("git", "-C", root, "-c", "safe.directory=*", "rev-list", "--count", "HEAD")
				out, err := git.Output()
				n, err2 := strconv.Atoi(strings.TrimSpace(string(out)))
				if err != nil || err2 != nil {
					t.Errorf("%v: %v, %s", git, err, out)
				}
				return n
			}
			was := commits()
			s := create(t, root)
			sandbox(t, s, as+tt.run+`; touch done`)
			held, something := false, false
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				held = held || c.Runs == Protected
				something = something || c.Path == "done"
			}
			if held != tt.lost || !something {
				t.Errorf("held back: %v", held)
			}
			_ = s.Commit(t.Context()) // the error names what is held back
			if _, err := os.Stat(filepath.Join(root, "done")); err != nil {
				t.Error(err)
			}
			if tt.lost && commits() != was {
				t.Errorf("%d commits are left of %d", commits(), was)
			}
			if !tt.lost {
				return
			}
			if err := s.CommitWith(t.Context(), CommitOptions{Paths: []string{".git"}}); err != nil {
				t.Fatal(err)
			}
			var left []string
			for c, err := range s.Changes() {
				if err == nil { // else it has ended
					left = append(left, c.Path)
				}
			}
			if len(left) > 0 {
				t.Errorf("left after a commit of .git: %q", left)
			}
		})
	}
}
