//go:build linux

package gitindex

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/internal/testenv"
)

func check(data []byte, sha256 bool) error {
	return Check(bytes.NewReader(data), int64(len(data)), sha256)
}

// TestCheck: an index is refused if one of its paths is none that git takes from users, in each version and with each
// hash.
func TestCheck(t *testing.T) {
	for path, good := range map[string]bool{
		"../a": false, "..": false, "a/../x": false, "a/..": false, ".": false, "a/./b": false, "/etc/x": false, "a//b": false, "a/": false, "/": false,
		".git": false, ".git/hooks/x": false, "s/.GIT/x": false, ".git /x": false, "a/.git.": false, "git~1/x": false, "a/Git~1": false,
		"a/.gitx": true, "...": true, "a/..x": true, ".gitignore": true, "a b": true, "x.git/y": true, ".g/it": true, "a/b": true, "git": true,
	} {
		for _, idSize := range []int{githash.SHA1Size, githash.SHA256Size} {
			for version := 2; version <= 4; version++ {
				x := &Index{Version: version, idSize: idSize}
				for _, path := range []string{".gi", path, "zz"} {
					x.Entries = append(x.Entries, Entry{Path: path, ID: strings.Repeat("1", idSize), Mode: 0o100644})
				}
				if err := check(x.Encode(), idSize == githash.SHA256Size); (err == nil) != good {
					t.Errorf("%q, version %d, %d bytes: %v", path, version, idSize, err)
				}
			}
		}
	}
}

// TestCheckBlocks: git reads a large index from where the index says that blocks begin, so one that says anything else
// than what was read is refused.
func TestCheckBlocks(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		dir := repo(t, `git init -q; git config index.version `+version+`; git config index.threads 4
for i in $(seq 20500); do echo "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	d$((i%9))/a file $i"; done | git update-index --index-info`)
		data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(data, false); err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		blocks, end := bytes.LastIndex(data, []byte("IEOT")), bytes.LastIndex(data, []byte("EOIE"))
		if blocks < 0 || end < 0 {
			t.Fatalf("version %s: it has no blocks", version)
		}
		for _, at := range []int{blocks + 12, blocks + 16, blocks + 20, blocks + 24, end + 8} {
			evil := bytes.Clone(data)
			binary.BigEndian.PutUint32(evil[at:], binary.BigEndian.Uint32(evil[at:])+1)
			if check(evil, false) == nil {
				t.Errorf("version %s: with another number at %d: it is accepted", version, at-blocks)
			}
		}
		// Git looks for EOIE at the end only, wherever extensions begin.
		evil := bytes.Clone(data)
		copy(evil[blocks:], "ZZZZ")
		binary.BigEndian.PutUint32(evil[blocks+4:], uint32(len(data)-blocks-28))
		binary.BigEndian.PutUint32(evil[end+8:], uint32(blocks+8))
		if check(evil, false) == nil {
			t.Errorf("version %s: with an EOIE in another extension: it is accepted", version)
		}
	}
}

// FuzzCheck: git finds no other paths in what is accepted.
func FuzzCheck(f *testing.F) {
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(f, "git", "git is not installed")
	}
	for _, script := range []string{
		`git init -q; touch a b; git add .`,
		`git init -q; git config index.version 4; mkdir d; touch d/a d/b; git add .; git update-index --skip-worktree d/b`,
		`git init -q; touch a; git add .; git update-index --split-index; touch b; git add b`,
		`git init -q; git config index.version 4; printf "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\ta/s\n" | git update-index --index-info`,
	} {
		data, err := os.ReadFile(filepath.Join(repo(f, script), ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	dir := repo(f, `git init -q`)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 || check(data, false) != nil {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, ".git/index"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("git", "ls-files", "-z")
		c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := c.Output()
		if err != nil {
			return // it is nothing that git reads
		}
		for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if path != "" && !isPath(strings.TrimSuffix(path, "/")) {
				t.Fatalf("git finds %q", path)
			}
		}
	})
}
