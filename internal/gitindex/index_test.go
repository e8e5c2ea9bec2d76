//go:build linux

package gitindex

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.MainOnce(m) }

// repo is a repository of git, in which a script is run.
func repo(t testing.TB, script string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	dir := testenv.Dir(t)
	git(t, dir, script)
	return dir
}

func git(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	return string(out)
}

func read(t testing.TB, dir string) *Index {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const list = `git ls-files -s -t -v --full-name; git ls-files -v; git fsck --strict 2>&1 || :; git status --porcelain=v2`

// Each form of the index that git writes is read, and git reads the same in what is written for it.
func TestForms(t *testing.T) {
	files := `mkdir -p d/e; for i in $(seq 30); do echo $i >d/file-$i; echo $i >d/e/$i; done; ln -s x link; echo 1 >run; chmod +x run; git add .`
	for name, c := range map[string]struct {
		script  string
		version int
	}{
		"empty":      {`git init -q; touch x; git add x; git rm -q --cached x`, 2},
		"version 2":  {`git init -q; ` + files, 2},
		"version 3":  {`git init -q; ` + files + `; echo 1 >later; git add -N later; git update-index --skip-worktree run`, 3},
		"version 4":  {`git init -q; git config index.version 4; ` + files + `; git update-index --assume-unchanged d/e/7`, 4},
		"many parts": {`git init -q; git config index.version 4; git config index.threads 4; for i in $(seq 20500); do echo "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	d$((i%9))/a file $i"; done | git update-index --index-info`, 4},
		"sha256":     {`git init -q --object-format=sha256; ` + files, 2},
		"sha256, 4":  {`git init -q --object-format=sha256; git config index.version 4; ` + files, 4},
		"trees":      {`git init -q; ` + files + `; git commit -qm 1; git config core.untrackedCache true; git status >/dev/null`, 2},
		"unmerged":   {`git init -q; ` + files + `; git commit -qm 1; git checkout -qb o; echo o >run; git commit -qam o; git checkout -q -; echo m >run; git commit -qam m; git merge o >&2 || :`, 2},
		"sparse":     {`git init -q; ` + files + `; git commit -qm 1; git sparse-checkout set --cone --sparse-index d`, 0},
		"odd names":  {`git init -q; ` + "touch 'a b' \"$(printf 'n\\nl')\" \"$(printf '\\377')\" -- -x; git add .", 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t, c.script)
			x := read(t, dir)
			if c.version != 0 && x.Version != c.version {
				t.Errorf("version %d", x.Version)
			}
			if err := check(x.Encode(), x.idSize == githash.SHA256Size); err != nil {
				t.Error(err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, ".git/index")); err != nil || check(data, x.idSize == githash.SHA256Size) != nil {
				t.Errorf("git's own index is refused: %v", err)
			}
			before := git(t, dir, list)
			again, err := Parse(x.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if !Same(x, again) || x.Digest() != again.Digest() {
				t.Error("the written index differs from the one that was read")
			}
			// Without what git found when it looked at the files.
			m, clashes, err := Merge(x, x, x, MergeOptions{})
			if err != nil || clashes != nil {
				t.Fatal(clashes, err)
			}
			if err := os.WriteFile(filepath.Join(dir, ".git/index"), m.Encode(), 0o600); err != nil {
				t.Fatal(err)
			}
			if after := git(t, dir, list); after != before {
				t.Errorf("git sees\n%s\nand saw\n%s", after, before)
			}
			git(t, dir, `git update-index -q --refresh || :`)
			if y := read(t, dir); !Same(x, y) || x.Digest() != y.Digest() {
				t.Error("git reads another index")
			}
		})
	}
	dir := repo(t, `git init -q; `+files+`; git update-index --split-index; echo 2 >run; git add run`)
	for _, name := range strings.Fields(git(t, dir, "ls -d .git/*index*")) {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || check(data, false) != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
	if x := read(t, dir); !x.Split || x.Digest() != "" || x.Encode() != nil {
		t.Errorf("a split index: %+v", x)
	}
}

// Nothing that git would refuse, or that could be understood in two ways, is read.
func TestRefused(t *testing.T) {
	seal := func(p []byte) []byte { return append(p, checksum(p, githash.SHA1Size)...) }
	entry := func(path string, mode uint32, flags uint16) []byte {
		p := make([]byte, statSize+githash.SHA1Size, 100)
		binary.BigEndian.PutUint32(p[modeAt:], mode)
		p[statSize] = 1
		p = binary.BigEndian.AppendUint16(p, flags|uint16(len(path)))
		p = append(append(p, path...), 0)
		for len(p)%8 != 0 {
			p = append(p, 0)
		}
		return p
	}
	head := func(version, n uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte(Magic), version), n)
	}
	file := func(path string) []byte { return entry(path, 0o100644, 0) }
	if _, err := Parse(seal(slices.Concat(head(2, 1), file("a")))); err != nil {
		t.Fatal("control:", err)
	}
	if _, err := Parse(append(slices.Concat(head(2, 1), file("a")), make([]byte, githash.SHA1Size)...)); err != nil {
		t.Fatal("no checksum:", err)
	}
	for name, data := range map[string][]byte{
		"empty":              nil,
		"short":              []byte("DIRC"),
		"version 1":          seal(slices.Concat(head(1, 1), file("a"))),
		"version 5":          seal(slices.Concat(head(5, 1), file("a"))),
		"more than there is": seal(slices.Concat(head(2, 2), file("a"))),
		"far more":           seal(slices.Concat(head(2, 1<<32-1), file("a"))),
		"less":               seal(slices.Concat(head(2, 0), file("a"))),
		"wrong sum":          append(slices.Concat(head(2, 1), file("a")), bytes.Repeat([]byte{1}, githash.SHA1Size)...),
		"order":              seal(slices.Concat(head(2, 2), file("b"), file("a"))),
		"twice":              seal(slices.Concat(head(2, 2), file("a"), file("a"))),
		"absolute":           seal(slices.Concat(head(2, 1), file("/a"))),
		"up":                 seal(slices.Concat(head(2, 1), file("a/../../b"))),
		"hooks":              seal(slices.Concat(head(2, 1), file(".git/hooks/x"))),
		"hooks, below":       seal(slices.Concat(head(2, 1), file("a/.GIT/config"))),
		"no name":            seal(slices.Concat(head(2, 1), file(""))),
		"a directory":        seal(slices.Concat(head(2, 1), entry("a/", modeDir, 0))),
		"a device":           seal(slices.Concat(head(2, 1), entry("a", 0o020644, 0))),
		"extended in 2":      seal(slices.Concat(head(2, 1), entry("a", 0o100644, flagExtended))),
		"its length":         seal(slices.Concat(head(2, 1), entry("a", 0o100644, 2))),
		"must be known":      seal(slices.Concat(head(2, 1), file("a"), []byte("zzzz\x00\x00\x00\x00"))),
		"cut extension":      seal(slices.Concat(head(2, 1), file("a"), []byte("TREE\x00\x00\x00\x09"))),
		"strips too much":    seal(slices.Concat(head(4, 1), file("a")[:62], []byte("\x05a\x00"))),
		"strips for ever":    seal(slices.Concat(head(4, 1), file("a")[:62], bytes.Repeat([]byte{0xff}, 40))),
	} {
		if x, err := Parse(data); err == nil {
			t.Errorf("%s: read as %+v", name, x)
		}
	}
}

// made is an index of entries such as "a=1" or, for a stage, "a:2=1"; "a=1!" has a flag.
func made(text string) *Index {
	x := &Index{Version: 2, idSize: githash.SHA1Size}
	for _, f := range strings.Fields(text) {
		path, id, _ := strings.Cut(f, "=")
		e := Entry{Mode: 0o100644}
		if id, skip := strings.CutSuffix(id, "!"); skip {
			e.Flags = SkipWorktree
			e.ID = strings.Repeat(id, githash.SHA1Size)
		} else {
			e.ID = strings.Repeat(id, githash.SHA1Size)
		}
		var stage string
		if e.Path, stage, _ = strings.Cut(path, ":"); stage != "" {
			e.Stage = stage[0] - '0'
		}
		e.stat[statMtime] = 100
		x.Entries = append(x.Entries, e)
	}
	slices.SortFunc(x.Entries, func(a, b Entry) int {
		if before(&a, &b) {
			return -1
		}
		return 1
	})
	return x
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ base, ours, theirs, want, clash string }{
		{"", "", "", "", ""},
		{"a=1 b=1", "a=1 b=1", "a=1 b=1", "a=1 b=1", ""},
		{"a=1 b=1", "a=2 b=1", "a=1 b=3", "a=2 b=3", ""},
		{"a=1", "a=1 b=2", "a=1 c=3", "a=1 b=2 c=3", ""},
		{"a=1 b=1", "a=1", "b=1", "", ""},
		{"a=1", "", "a=1 b=2", "b=2", ""},
		{"a=1", "a=2", "a=2", "a=2", ""},
		{"a=1", "a=2", "a=3", "", "a"},
		{"a=1", "", "a=3", "", "a"},
		{"a=1 b=1", "a=2 b=2", "a=3 b=3", "", "a b"},
		{"", "a=1", "a=2", "", "a"},
		{"a=1", "a=1!", "a=1", "a=1!", ""},
		{"a=1", "a=1!", "a=2", "", "a"},
		{"a=1 b=1", "a:1=1 a:2=2 a:3=3 b=1", "a=1 b=2", "a:1=1 a:2=2 a:3=3 b=2", ""},
		{"a=1", "a:1=1 a:2=2 a:3=3", "a=2", "", "a"},
		{"", "a=1", "a/b=1", "", "a"},
		{"", "a/b=1", "a=1", "", "a"},
		{"", "a=1 a-b=1", "a-c=1 a/b/c=2", "", "a"},
		{"a=1", "a/b=1", "a=1 c=1", "a/b=1 c=1", ""},
	} {
		m, clashes, err := Merge(made(c.base), made(c.ours), made(c.theirs), MergeOptions{})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var names []string
		for _, k := range clashes {
			names = append(names, k.Path)
		}
		if got := strings.Join(names, " "); got != c.clash {
			t.Errorf("%+v: clashes %q", c, got)
		}
		if c.clash == "" && !Same(m, made(c.want)) {
			t.Errorf("%+v: %+v", c, m.Entries)
		}
		// Exchanging the sides makes no difference to what is staged.
		o, back, err := Merge(made(c.base), made(c.theirs), made(c.ours), MergeOptions{})
		if err != nil || len(back) != len(clashes) || c.clash == "" && !Same(m, o) {
			t.Errorf("%+v, exchanged: %v, %v", c, back, err)
		}
	}
	for side, want := range map[Side]string{Ours: "a=2 b=1 c=3", Theirs: "a=3 b=1 c=3"} {
		m, clashes, err := Merge(made("a=1 b=1"), made("a=2 b=1"), made("a=3 b=1 c=3"), MergeOptions{Choose: func(path string) Side {
			if path != "a" {
				t.Errorf("asked about %s", path)
			}
			return side
		}})
		if err != nil || clashes != nil || !Same(m, made(want)) {
			t.Errorf("side %d: %v %v %v", side, m, clashes, err)
		}
	}
	if _, _, err := Merge(made(""), made("a=1"), &Index{Split: true}, MergeOptions{}); err != ErrSplit {
		t.Errorf("split: %v", err)
	}
	other := made("")
	other.idSize = githash.SHA256Size
	if _, _, err := Merge(made(""), made("a=1"), other, MergeOptions{}); err != errHashes {
		t.Errorf("two hashes: %v", err)
	}
}

// Git must read a file again if what it knew of it may be wrong now.
func TestMergeForgets(t *testing.T) {
	ours := made("a=1 b=1 c=1 d=1")
	ours.Entries[1].stat[statMtime] = 200 // in the moment in which ours was written
	m, _, err := Merge(made("a=1 b=1 c=1 d=1"), ours, made("a=1 b=1 c=1 d=2 e=1"), MergeOptions{
		Written: 200, Touched: func(path string) bool { return path == "c" },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false, false, false} {
		if e := m.Entries[i]; (e.stat != statData{}) != want {
			t.Errorf("%s: %v", e.Path, e.stat)
		}
	}
}

// TestRefresh: only what git found as it was gets what git would find now, and nothing else of the index changes.
func TestRefresh(t *testing.T) {
	dir := repo(t, `git init -q .; for i in a b c d; do echo 1 >$i; done; git add .`)
	name := filepath.Join(dir, ".git/index")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	digest, before := x.Digest(), bytes.Clone(data)
	look := func(path string) (was, is Seen, ok bool) {
		e := &x.Entries[strings.Index("abcd", path)]
		was = Seen{int64(e.stat[0])*1e9 + int64(e.stat[1]), int64(e.stat[2])*1e9 + int64(e.stat[3]), 7, 7, e.stat[6], e.stat[7], int64(e.stat[8])}
		is = was
		switch is.Ctime, is.Ino = 5e9+6, 8; path {
		case "b":
			was.Ctime++
		case "c":
			was.Size++
			is.Size++
		case "d":
			is.Mtime++
		}
		return was, is, true
	}
	parts := x.Refresh(data, look)
	if len(parts) != 2 {
		t.Fatalf("changed: %v", parts)
	}
	y, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if e := y.Entries[0]; e.stat[0] != 5 || e.stat[1] != 6 || e.stat[5] != 8 || y.Digest() != digest {
		t.Errorf("the first entry is %v", e)
	}
	for _, p := range parts {
		copy(data[p[0]:p[1]], before[p[0]:p[1]])
	}
	if !bytes.Equal(data, before) {
		t.Error("more was changed")
	}
	if parts := y.Refresh(bytes.Clone(before), func(string) (was, is Seen, ok bool) { return }); parts != nil {
		t.Errorf("of files that are not known: %v", parts)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "a=1 b/c=2 d=3!", "a:1=1 a:2=2"} {
		for version := 2; version <= 4; version++ {
			x := made(text)
			x.Version = version
			f.Add(x.Encode())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksum is what a fuzzer would never find.
		for _, size := range []int{githash.SHA1Size, githash.SHA256Size} {
			if len(data) > size {
				data = append(slices.Clone(data[:len(data)-size]), make([]byte, size)...)
			}
			x, err := Parse(data)
			if err != nil {
				continue
			}
			if x.Split {
				continue
			}
			y, err := Parse(x.Encode())
			if err != nil || !Same(x, y) || x.Digest() != y.Digest() {
				t.Fatalf("%+v became %+v, %v", x, y, err)
			}
			x.Refresh(bytes.Clone(data), func(string) (was, is Seen, ok bool) { return was, Seen{Ino: 1}, true })
			if m, clashes, err := Merge(&Index{idSize: x.idSize}, x, x, MergeOptions{}); err == nil && clashes == nil && !Same(m, x) {
				t.Fatalf("%+v merged with itself is %+v", x, m)
			}
		}
	})
}

// TestMergeManyClashes: an index in which every second file has the name of a directory is reported at once. Git writes
// none, but a command can. In quadratic time that would take longer than a test may.
func TestMergeManyClashes(t *testing.T) {
	const n = 400_000
	x := &Index{Version: 2, Entries: make([]Entry, 0, 2*n)}
	for i := range n {
		dir := strconv.Itoa(n + i) // in order
		x.Entries = append(x.Entries, Entry{Path: dir, Mode: 0o100644}, Entry{Path: dir + "/f", Mode: 0o100644})
	}
	merged, clashes, err := Merge(&Index{Version: 2}, x, &Index{Version: 2}, MergeOptions{})
	if merged != nil || len(clashes) != n || err != nil {
		t.Errorf("%d clashes, %v", len(clashes), err)
	}
}
