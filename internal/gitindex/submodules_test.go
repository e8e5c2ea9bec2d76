//go:build linux

package gitindex

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSubmodules: the paths of submodules are those that git lists, in all forms of an index.
func TestSubmodules(t *testing.T) {
	const add = `{ seq -f "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	d%.0f/a file" 3000; seq -f "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	d%.0f/s" 7; echo "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	s"; } | git update-index --index-info`
	for name, script := range map[string]string{
		"none":      `git init -q; touch f; git add f`,
		"version 2": `git init -q; ` + add,
		"version 3": `git init -q; ` + add + `; echo 1 >later; git add -N later`,
		"version 4": `git init -q; git config index.version 4; ` + add,
		"sha256":    `git init -q --object-format=sha256; h=$(git hash-object -w --stdin </dev/null); printf "160000 $h 0\ta/s\n100644 $h 0\tb\n160000 $h 0\tc\n" | git update-index --index-info`,
		"sha256, 4": `git init -q --object-format=sha256; git config index.version 4; h=$(git hash-object -w --stdin </dev/null); printf "160000 $h 0\ta/s\n100644 $h 0\ta/t\n160000 $h 0\ta/u\n" | git update-index --index-info`,
		"no hash":   `git init -q; git config index.skipHash true; ` + add,
		"long name": `git init -q; n=$(printf %03000d 7 | sed 's/0\{200\}/&\//g'); printf "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\t$n\n" | git update-index --index-info`,
		"split":     `git init -q; ` + add + `; git update-index --split-index; printf "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\tnew\n" | git update-index --index-info`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t, script)
			want := git(t, dir, `git ls-files -s | sed -n 's/^160000 [^	]*	//p' | sort`)
			got, shared := listed(t, filepath.Join(dir, ".git/index"))
			if (shared != "") != (name == "split") {
				t.Errorf("split: %q", shared)
			}
			if shared != "" {
				more, _ := listed(t, filepath.Join(dir, ".git/sharedindex."+shared))
				got = append(got, more...)
			}
			slices.Sort(got)
			var b bytes.Buffer
			for _, path := range got {
				fmt.Fprintln(&b, path)
			}
			if b.String() != want {
				t.Errorf("%q, git has %q", &b, want)
			}
		})
	}
	dir := repo(t, `git init -q; `+add)
	data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 3, 12, 40, 100, len(data) / 2, len(data) - 21} {
		if paths, _, err := submodulesOf(data[:n]); err == nil {
			t.Errorf("of %d bytes: %q", n, paths)
		}
	}
}

func submodulesOf(data []byte) ([]string, string, error) {
	return Submodules(bytes.NewReader(data), int64(len(data)))
}

func listed(t testing.TB, name string) ([]string, string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	paths, shared, err := submodulesOf(data)
	if err != nil {
		t.Fatal(err)
	}
	return paths, shared
}

// FuzzSubmodules: what Parse reads has the same submodules here.
func FuzzSubmodules(f *testing.F) {
	for _, script := range []string{`git init -q; touch a b; git add .`, `git init -q; git config index.version 4; printf "160000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\ta/s\n" | git update-index --index-info`} {
		data, err := os.ReadFile(filepath.Join(repo(f, script), ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := Parse(data)
		got, _, err2 := submodulesOf(data)
		if err != nil || x.Split {
			return
		}
		if err2 != nil {
			t.Fatal(err2)
		}
		for _, e := range x.Entries {
			if e.Mode == modeSub && !slices.Contains(got, e.Path) {
				t.Errorf("%q is left out of %q", e.Path, got)
			}
		}
	})
}

func BenchmarkSubmodules(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		data, err := os.ReadFile(filepath.Join(repo(b, fmt.Sprintf(`git init -q; seq -f "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0	some/directory/d%%.0f/a file of it" %d | git update-index --index-info`, n)), ".git/index"))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := submodulesOf(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
