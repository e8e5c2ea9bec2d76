//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// staging is what `git ls-files -s` prints, by path.
type staging map[string]string

func readStaging(text string) staging {
	s := staging{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if what, path, ok := strings.Cut(line, "\t"); ok {
			s[path] += what + ";"
		}
	}
	return s
}

// merge3 is the model: what either side staged, and the paths that both did.
func merge3(base, ours, theirs staging, prefer Preference) (merged staging, clashes []string) {
	merged = staging{}
	all := maps.Clone(base)
	maps.Copy(all, ours)
	maps.Copy(all, theirs)
	for path := range all {
		b, o, t := base[path], ours[path], theirs[path]
		switch {
		case o == t || b == t:
		case b == o, prefer == Theirs:
			o = t
		case prefer == Ours:
		default:
			clashes = append(clashes, path)
		}
		if o != "" {
			merged[path] = o
		}
	}
	return merged, clashes
}

// gitOps is a script of operations of one side, which writes to files of its own only, and stages what it likes.
func gitOps(r *rand.Rand, side string) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		own := fmt.Sprintf("%s%d", side, r.IntN(3))
		any := fmt.Sprintf("%s%d", []string{"p", "s", "c", "d/e/c"}[r.IntN(4)], r.IntN(3))
		n := strconv.Itoa(r.IntN(3))
		op := []string{
			"echo NUM >OWN; git add OWN",
			"git rm -qf --cached OWN || :",
			"git rm -qf OWN || :",
			"rm -f OWN-moved; git mv -f OWN OWN-moved || :",
			"git update-index --add --cacheinfo 100644,$(echo NUM | git hash-object -w --stdin),ANY",
			"git update-index --add --cacheinfo 100755,$(echo NUM | git hash-object -w --stdin),ANY",
			"git update-index --force-remove ANY",
			"git reset -q -- ANY || :",
			"git checkout -q -- OWN || :",
			"git status >&2",
			"touch OWN-new; git status >&2",
			"git update-index -q --refresh || :",
			"git add -N OWN || :",
			"git update-index --index-version VERSION",
			"git diff >&2",
			"git write-tree >&2 || :",
		}[r.IntN(16)]
		b.WriteString(strings.NewReplacer("OWN", own, "ANY", any, "NUM", n, "VERSION", strconv.Itoa(2+r.IntN(3))).Replace(op) + "\n")
	}
	return b.String()
}

// Both sides use git at the same time. The index afterwards is what a merge by path says, or nothing is done. git fsck
// finds nothing wrong, and an undo works.
func TestGitModel(t *testing.T) {
	testenv.Leaks(t)
	rounds := testenv.Rounds(4, 400)
	seed := rand.Uint64()
	for i := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		before, inside, outside, after := gitOps(r, "p"), gitOps(r, "s"), gitOps(r, "p"), gitOps(r, "p")
		commit := ""
		if r.IntN(3) == 0 {
			commit = "git commit -qm more || :\n"
		}
		if r.IntN(2) == 0 {
			inside, commit = inside+commit, ""
		}
		gitRound(t, r, before, inside, outside+commit)
		if t.Failed() {
			t.Fatalf("seed %d, round %d:\n%s--- inside\n%s--- outside\n%s--- after\n%s", seed, i, before, inside, outside+commit, after)
		}
	}
}

func gitRound(t *testing.T, r *rand.Rand, during, inside, outside string) {
	ctx := context.Background()
	root := gitProject(t, `mkdir -p d/e; for i in p s c d/e/c; do for k in 0 1 2; do echo $i >$i$k; done; done; git add .; git commit -qm 1`)
	ls := func() staging { return readStaging(runGit(t, root, "git ls-files -s")) }
	s := create(t, root)
	base := ls()
	early := r.IntN(2) == 0
	if early {
		runGit(t, root, during+":")
	}
	sandbox(t, s, gitAs+inside+"git ls-files -s >list")
	if !early {
		runGit(t, root, during+":")
	}
	preserve(t, s)
	runGit(t, root, outside+":")
	ours := ls()

	f, err := s.File(Change{Root: root, Path: "list"}, After)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	theirs := readStaging(string(data))
	if _, err := s.Mode(Change{Root: root, Path: ".git/index"}, After); err != nil {
		base, theirs = ours, ours // git did not write it inside: that is as good as what both began with
	}
	exclude := []string{"list", ".git/refs", ".git/logs"}
	prefer := Refuse
	want, clashes := merge3(base, ours, theirs, prefer)
	err = s.CommitWith(ctx, CommitOptions{Exclude: exclude})
	if len(clashes) > 0 {
		var ce *ConflictError
		if !errors.As(err, &ce) || len(ce.Conflicts) != len(clashes) {
			t.Errorf("clashes in %q: %v", clashes, err)
			return
		}
		for _, k := range ce.Conflicts {
			if !slices.Contains(clashes, k.Path) {
				t.Errorf("%+v", k)
			}
		}
		if !maps.Equal(ls(), ours) {
			t.Error("it was changed")
		}
		prefer = []Preference{Ours, Theirs}[r.IntN(2)]
		want, _ = merge3(base, ours, theirs, prefer)
		err = s.CommitWith(ctx, CommitOptions{Exclude: exclude, Prefer: prefer})
	}
	check := func(what string, want staging) {
		t.Helper()
		if got := ls(); !maps.Equal(got, want) {
			t.Errorf("%s:\n%v, not\n%v\nbase   %v\nours   %v\ntheirs %v", what, got, want, base, ours, theirs)
		}
		runGit(t, root, "git fsck --no-dangling >&2; git status --porcelain >&2")
		// Git sees the files as they are now, although it may rely on what it knew of them.
		status := runGit(t, root, "git diff-files --name-only")
		if again := runGit(t, root, "git update-index -q --really-refresh >&2 || :; touch -c * d/e/*; git update-index -q --really-refresh >&2 || :; git diff-files --name-only"); again != status {
			t.Errorf("%s: git reports changes in %q, want %q", what, status, again)
		}
	}
	if err != nil {
		t.Error(err)
		return
	}
	if got := ls(); !maps.Equal(got, want) {
		t.Errorf("staged: %v, not\n%v\nbase   %v\nours   %v\ntheirs %v", got, want, base, ours, theirs)
	}
	runGit(t, root, "git fsck --no-dangling >&2; git status >&2; git update-index -q --refresh >&2 || :")
	if err := s.Undo(ctx, UndoOptions{}); err != nil {
		t.Error(err)
		return
	}
	if got := ls(); !maps.Equal(got, ours) {
		t.Errorf("undone: %v, not %v", got, ours)
	}
	runGit(t, root, "git fsck --no-dangling >&2; git status >&2")
	if err := s.CommitWith(ctx, CommitOptions{Exclude: exclude, Prefer: prefer}); err != nil {
		t.Error("again:", err)
		return
	}
	check("again", want)
}
