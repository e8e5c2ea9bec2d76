//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

const gitAs = `export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
`

// gitProject is a project that is a repository, with a script run in it.
func gitProject(t testing.TB, script string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	return project(t, gitAs+`git init -q .; `+script)
}

// runGit is what a script prints that is run in the project, outside of sandboxes.
func runGit(t testing.TB, root, script string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", gitAs+script)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	return string(out)
}

// preserve is what is done when a command has ended.
func preserve(t testing.TB, s *Session) {
	t.Helper()
	var list []Change
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	if err := s.Preserve(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// What git finds when it looks at the files is written down, and is another thing than before.
const (
	restat  = `touch d; git status >/dev/null; git update-index -q --refresh || :` + "\n"
	restatC = `touch c; git status >/dev/null; git update-index -q --refresh || :` + "\n"
)

// An index of git that both sides wrote is not a conflict if it says the same, or can be merged.
func TestGitIndex(t *testing.T) {
	testenv.Leaks(t)
	const files = `for i in a b c d; do echo $i >$i; done; git add .; git commit -qm 1; `
	for name, c := range map[string]struct {
		before          string // in the project
		during          string // outside, before the command
		inside, outside string
		want            string // what git status says afterwards, of what is staged
		clash           string // paths
	}{
		"status outside":       {files, "", `echo 2 >a; git add a`, restat, "M  a", ""},
		"status inside":        {files, "", restatC + `echo n >n`, `echo 2 >a; git add a`, "M  a", ""},
		"status on both":       {files, "", restatC + `echo n >n`, restat, "", ""},
		"status before":        {files, restat, `echo 2 >a; git add a`, "", "M  a", ""},
		"add before":           {files, `echo 2 >b; git add b`, `echo 2 >a; git add a`, restat, "M  a M  b", ""},
		"add on both":          {files, "", `echo 2 >a; git add a`, `echo 2 >b; git add b`, "M  a M  b", ""},
		"new ones on both":     {files, "", `echo 2 >x; git add x`, `echo 2 >y; git add y`, "A  x A  y", ""},
		"removed and added":    {files, "", `git rm -q a`, `echo 2 >y; git add y; git mv b e`, "D  a R  b -> e A  y", ""},
		"the same":             {files, "", `echo 2 >a; git add a`, `git update-index --cacheinfo 100644,$(echo 2 | git hash-object -w --stdin),a`, "M  a", ""},
		"two ways":             {files, "", `git update-index --cacheinfo 100644,$(echo 2 | git hash-object -w --stdin),a`, `git update-index --cacheinfo 100644,$(echo 3 | git hash-object -w --stdin),a`, "", "a"},
		"two ways, of two":     {files, "", `git rm -q --cached a b`, `for i in a b; do echo 9 >$i; git add $i; git checkout-index -f $i; done`, "", "a b"},
		"version 4":            {files + `git config index.version 4; git update-index --index-version 4;`, "", `echo 2 >a; git add a`, `echo 2 >b; git add b`, "M  a M  b", ""},
		"sha256":               {`rm -rf .git; git init -q --object-format=sha256 .; ` + files, "", `echo 2 >a; git add a`, `echo 2 >b; git add b`, "M  a M  b", ""},
		"intent to add":        {files, "", `echo 2 >x; git add -N x`, `echo 2 >y; git add y`, " A x A  y", ""},
		"untracked cache":      {files + `git config core.untrackedCache true; git status >/dev/null;`, "", `echo 2 >a; git add a`, `git status >/dev/null; echo 2 >b; git add b`, "M  a M  b", ""},
		"commit inside":        {files, "", `echo 2 >a; git commit -qam 2`, `echo 2 >b; git add b`, "M  b", ""},
		"commit outside":       {files, "", `echo 2 >a; git add a`, `echo 2 >b; git commit -qam 2`, "M  a", ""},
		"nested":               {files + `mkdir n; cd n; git init -q .; ` + files + `cd ..; echo n >.gitignore; git add .; git commit -qm 2; `, "", `cd n; echo 2 >a; git add a`, `cd n; touch d; git status >/dev/null; cd ..`, "", ""},
		"no checksum":          {files, "", `git -c index.skipHash=true add a`, restat, "", ""},
		"split":                {files + `git update-index --split-index; `, "", `echo 2 >a; git add a`, `echo 2 >b; git add b`, "", ".git/index"},
		"a directory or file":  {files, "", `mkdir x; echo 2 >x/y; git add x/y; rm -r x`, `echo 2 >x; git add x; rm x`, "", "x"},
		"merge with conflicts": {files + `git checkout -qb o; echo 2 >a; git commit -qam o; git checkout -q -; echo 3 >a; git commit -qam m; `, "", `git merge o >/dev/null || :`, `echo 2 >b; git add b`, "UU a M  b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.TakeTurns(t)
			root := gitProject(t, c.before)
			s := create(t, root)
			runGit(t, root, ":\n"+c.during)
			sandbox(t, s, gitAs+c.inside)
			if name == "nested" {
				preserve(t, s)
			}
			runGit(t, root, ":\n"+c.outside)
			preserve(t, s)
			before := noDirTimes(look(t, root))
			staged := runGit(t, root, "git ls-files -s")
			err := s.Commit(context.Background())
			var ce *ConflictError
			if errors.As(err, &ce) {
				var got []string
				for _, k := range ce.Conflicts {
					got = append(got, k.Path)
				}
				if text := strings.Join(got, " "); text != c.clash {
					t.Fatalf("conflicts: %s\n%v", text, err)
				}
				if name != "split" { // git has given the other file a new time
					wantSame(t, noDirTimes(look(t, root)), before)
				}
				return
			}
			if err != nil || c.clash != "" {
				t.Fatalf("instead of conflicts in %q: %v", c.clash, err)
			}
			check := func(want string) {
				t.Helper()
				var got []string
				for line := range strings.SplitSeq(runGit(t, root, "git fsck --no-dangling >&2; git status --porcelain"), "\n") {
					if line != "" && line[:2] != "??" && line[:2] != " D" && line[:2] != " M" {
						got = append(got, line)
					}
				}
				if text := strings.Join(got, " "); text != want {
					t.Errorf("git status: %q, not %q", text, want)
				}
			}
			check(c.want)
			// That was one more git status.
			runGit(t, root, ":\n"+restat)
			if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, root, "git ls-files -s"); got != staged {
				t.Errorf("undone: %s\nnot %s", got, staged)
			}
			runGit(t, root, ":\n"+restat)
			if err := s.Commit(context.Background()); err != nil {
				t.Fatal("again:", err)
			}
			check(c.want)
		})
	}
}

// What is said of an index is not lost by a preference for one side, but where both staged the same path.
func TestGitIndexPreferred(t *testing.T) {
	for prefer, want := range map[Preference]string{Theirs: "2", Ours: "3"} {
		root := gitProject(t, `for i in a b c; do echo 1 >$i; done; git add .; git commit -qm 1`)
		s := create(t, root)
		sandbox(t, s, gitAs+`echo 2 >a; echo 2 >b; git add a b`)
		preserve(t, s)
		runGit(t, root, `echo 3 >a; echo 3 >c; git add a c`)
		if err := s.CommitWith(t.Context(), CommitOptions{Prefer: prefer}); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(runGit(t, root, `for i in a b c; do git show :$i; done; git fsck`))
		if text := strings.Join(got, " "); text != want+" 2 3" {
			t.Errorf("prefer %d: %s", prefer, text)
		}
		if got := runGit(t, root, "git status --porcelain"); got != "M  a\nM  b\nM  c\n" {
			t.Errorf("prefer %d: %s", prefer, got)
		}
	}
}

// Git must not take a file for unmodified that is not, with what it knew of another one.
func TestGitIndexRacy(t *testing.T) {
	root := gitProject(t, `git config core.checkStat minimal; git config core.trustctime false
		for i in a b c; do echo 1 >$i; touch -d @1000000000 $i; done; git add .; git commit -qm 1`)
	s := create(t, root)
	sandbox(t, s, gitAs+`echo 2 >a; touch -d @1000000000 a; echo 2 >b; git add b; echo 3 >b; touch -d @1000000000 b`)
	preserve(t, s)
	runGit(t, root, `echo 2 >c; git add c; echo 3 >c`)
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runGit(t, root, "git status --porcelain"); got != " M a\nMM b\nMM c\n" {
		t.Errorf("git status:\n%s", got)
	}
}

// After a commit, git knows the files without reading them again, but only those that it had found as they are.
func TestGitIndexFresh(t *testing.T) {
	testenv.NeedRoot(t) // the helper's user is 0 inside, and git keeps the user too; test/tools does it as others
	const clean = `git diff-files; git diff-index HEAD`
	for name, before := range map[string]string{
		"version 2":   "",
		"version 4":   `git config index.version 4; `,
		"sha256":      `rm -rf .git; git init -q --object-format=sha256 .; `,
		"no checksum": `git config index.skipHash true; `,
	} {
		t.Run(name, func(t *testing.T) {
			root := gitProject(t, before+`for i in a b c d e; do echo 1 >$i; done; git add .; git commit -qm 1`)
			s := create(t, root)
			sandbox(t, s, gitAs+`echo 2 >a; mkdir n; echo n >n/n; ln -s n l; mv b n/b; mkdir r; (cd r; git init -q .; echo r >r; git add r; git commit -qm r)
				echo /r >.gitignore; git add -A; git commit -qm 2; `+clean)
			if err := s.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, root, clean+`; cd r; `+clean); got != "" {
				t.Errorf("for git, these files may have changed:\n%s", got)
			}
			if got := runGit(t, root, `git status --porcelain; git fsck --no-dangling`); got != "" {
				t.Errorf("git status and git fsck:\n%s", got)
			}
			if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, root, `git status --porcelain; git fsck --no-dangling`); got != "" {
				t.Errorf("undone: git status and git fsck:\n%s", got)
			}
		})
	}
	root := gitProject(t, `for i in a b c d; do echo 1 >$i; done; git add .; git commit -qm 1`)
	s := create(t, root)
	sandbox(t, s, gitAs+`for i in a b c; do echo 2 >$i; touch -d @1000000000 $i; git add $i; done
		echo 3 >a; touch -d @1000000000 a; touch -d @1000000000 b; chmod +x c; echo 2 >d`)
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runGit(t, root, `git diff-files --name-only; git status --porcelain`); got != "a\nb\nc\nd\nMM a\nM  b\nMM c\n M d\n" {
		t.Errorf("of files that changed after git had looked at them:\n%s", got)
	}
}

// An index is not taken without the objects that it names.
func TestGitIndexWithoutObjects(t *testing.T) {
	root := gitProject(t, `echo 1 >a; git add .; git commit -qm 1`)
	s := create(t, root)
	sandbox(t, s, gitAs+`echo 2 >a; echo 3 >n; git add a n`)
	preserve(t, s)
	before := noDirTimes(look(t, root))
	for _, o := range []CommitOptions{{Paths: []string{".git/index"}}, {Exclude: []string{".git/objects"}}, {Paths: []string{"a", ".git/i*"}}} {
		if err := s.CommitWith(t.Context(), o); !errors.Is(err, ErrLeftOut) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	wantSame(t, noDirTimes(look(t, root)), before)
	if err := s.Commit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), ".git"); err != nil {
		t.Fatal(err)
	}
	runGit(t, root, "git fsck --no-dangling; git write-tree")
}

// What git writes over with every command is not a conflict, and logs are added to.
func TestGitNotes(t *testing.T) {
	root := gitProject(t, `echo 1 >a; git add .; git commit -qm 1; git checkout -qb side; git checkout -q -`)
	s := create(t, root)
	sandbox(t, s, gitAs+`git checkout -q side; echo 2 >>a; git commit -qam inside; git update-ref ORIG_HEAD HEAD; echo x >.git/FETCH_HEAD; git checkout -q -`)
	preserve(t, s)
	runGit(t, root, `echo 3 >b; git add b; git commit -qm outside; git update-ref ORIG_HEAD HEAD; echo y >.git/FETCH_HEAD`)
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := runGit(t, root, `git fsck >&2; git status --porcelain; git reflog --format=%gs; cat .git/FETCH_HEAD; git log -1 --format=%s side`)
	for _, want := range []string{"commit: inside", "commit: outside", "y\ninside"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	runGit(t, root, `git status >/dev/null; echo z >.git/FETCH_HEAD`)
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(root, ".git/FETCH_HEAD")); err != nil || string(data) != "z\n" {
		t.Errorf("FETCH_HEAD: %q, %v", data, err)
	}
	runGit(t, root, `git fsck`)
}

// Indexes of linked work trees and of submodules are merged as well, while git outside writes them.
func TestGitIndexElsewhere(t *testing.T) {
	testenv.Leaks(t)
	const files = `for i in a b d; do echo 1 >$i; done; git add .; git commit -qm 1; `
	for name, c := range map[string]struct{ before, work, git string }{
		"linked":    {files + `git worktree add -q ../project/w; git config extensions.worktreeConfig true`, "w", ".git"},
		"submodule": {`mkdir ../m; cd ../m; git init -q .; ` + files + `cd ../project; git -c protocol.file.allow=always submodule -q add ../m w >/dev/null; git commit -qm 1`, "w", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := gitProject(t, c.before)
			roots := []string{root}
			if c.git != "" {
				roots = []string{filepath.Join(root, c.work), filepath.Join(root, c.git)}
			}
			s := create(t, roots...)
			work := filepath.Join(root, c.work)
			runGit(t, work, restat)
			sandbox(t, s, "cd "+work+"\n"+gitAs+`echo 2 >a; git add a`)
			runGit(t, work, restat+`echo 2 >b; git add b`)
			preserve(t, s)
			if err := s.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, work, "git fsck >&2; git status --porcelain"); got != "M  a\nM  b\n" {
				t.Errorf("git status:\n%s", got)
			}
			runGit(t, work, restat)
			if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, work, "git fsck >&2; git status --porcelain"); got != "M  b\n" {
				t.Errorf("git status:\n%s", got)
			}
		})
	}
}
