//go:build linux

package overlay

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestRenames(t *testing.T) {
	testenv.Leaks(t)
	tests := []struct {
		name, before, run string
		want              []string
	}{
		{"nothing", `echo 1 > a`, `echo 2 > a`, nil},
		{"file", `echo 1 > a`, `mv a b`, []string{"a b 100"}},
		{"into a new directory", `echo 1 > a`, `mkdir d; mv a d/a`, []string{"a d/a 100"}},
		{"copied, not moved", `echo 1 > a`, `cp a b`, nil},
		{"another size", `echo 1 > a`, `rm a; echo 12 > b`, nil},
		{"another content", `echo 1 > a`, `rm a; echo 2 > b`, nil},
		{"empty", `: > a`, `mv a b`, nil},
		{"binary", `printf 'a\000b' > a`, `mv a b`, []string{"a b 100"}},
		{"those that kept their names", `mkdir x; echo 1 > x/a; echo 1 > x/b`, `mkdir y; mv x/b y/b; mv x/a y/a; echo 1 > y/c; : > x/d`, []string{"x/a y/a 100", "x/b y/b 100"}},
		{"directory", `mkdir -p x/y; echo 1 > x/a; echo 2 > x/y/b; ln -s a x/l`, `mv x z`, []string{"x z 100"}},
		{"directory in a new one", `mkdir -p x/y; echo 1 > x/a; echo 2 > x/y/b`, `mkdir n; mv x n/x`, []string{"x n/x 100"}},
		{"directory from a deleted one", `mkdir -p x/y; echo 1 > x/a; echo 2 > x/y/b`, `mv x/y y; rm -r x`, []string{"x/y y 100"}},
		{"directory and one more", `mkdir -p x/y; echo 1 > x/a; echo 2 > x/y/b`, `mv x z; echo 3 > z/c`, []string{"x/a z/a 100", "x/y z/y 100"}},
		{"directory, one file of the same size changed", `mkdir x; echo 1 > x/a; echo 2 > x/b`, `mv x z; echo 3 > z/b`, []string{"x/a z/a 100"}},
		{"directory with another link", `mkdir x; echo 1 > x/a; ln -s a x/l`, `mv x z; rm z/l; ln -s b z/l`, []string{"x/a z/a 100"}},
		{"two equal directories", `mkdir x y; echo 1 > x/a; echo 1 > y/a`, `mv x v; mv y w`, []string{"x v 100", "y w 100"}},
		{"empty directory", `mkdir x`, `mv x y`, nil},
		{"alike", `seq 10 > a`, `mv a b; echo 11 >> b`, []string{"a b 87"}},
		{"half alike", `seq 10 19 > a; seq 10 19 > b`, `rm a b; seq 15 24 > c; seq 16 25 > d`, []string{"a c 50"}},
		{"the most alike", `seq 10 29 > a; seq 11 30 > b`, `mv b c; rm a; seq 10 28 > d; seq 50 60 >> c`, []string{"b c 64", "a d 95"}},
		{"not alike if binary", `seq 100 > a; printf '\000' >> a`, `mv a b; echo 1 >> b`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, tt.before)
			s := create(t, root)
			sandbox(t, s, tt.run)
			var changes []Change
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				changes = append(changes, c)
			}
			list, err := s.Renames(changes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range list {
				if r.Root != root {
					t.Errorf("root %s", r.Root)
				}
				got = append(got, fmt.Sprintf("%s %s %d", r.From, r.To, r.Similarity))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestRenamesMany: the search is bounded.
func TestRenamesMany(t *testing.T) {
	testenv.Once(t)
	testenv.Leaks(t)
	const files = `awk 'BEGIN { for (i = 0; i < 600; i++) { f = "%s" i; for (k = i; k < i+40; k++) print k "%s" > f; close(f) } }'`
	root := project(t, "mkdir x\n"+fmt.Sprintf(files, "x/", ""))
	s := create(t, root)
	sandbox(t, s, "mkdir y; rm -r x\n"+fmt.Sprintf(files, "y/n", `\r`)+"\necho end >> y/n0")
	var changes []Change
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	begin := time.Now()
	list, err := s.Renames(changes)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d, in %v", len(list), len(changes), time.Since(begin))
	seen := map[string]bool{}
	for _, r := range list {
		if seen[r.From] || seen[r.To] || !strings.HasPrefix(r.From, "x/") || !strings.HasPrefix(r.To, "y/") {
			t.Errorf("%+v", r)
		}
		seen[r.From], seen[r.To] = true, true
	}
}

// TestRenamesOfVeryMany: among a hundred thousand objects, the time does not grow with their pairs.
func TestRenamesOfVeryMany(t *testing.T) {
	testenv.Once(t)
	const many = 100_000
	for name, c := range map[string]struct {
		old, new int64
		sum      string
		want     int
	}{"of other sizes": {1, 100, "", 0}, "equal": {100, 100, "x", many}} {
		r := renamer{seed: maphash.MakeSeed(), seed2: maphash.MakeSeed(), hashed: maxHashed, similar: maxSimilar}
		var changes []Change
		for i := range many {
			was := Change{Kind: Deleted, Path: fmt.Sprintf("a/b/c/old%06d", i), Size: c.old}
			is := Change{Kind: Added, Path: fmt.Sprintf("a/b/c/new%06d", i), Size: c.new, Runs: "make"}
			r.gone, r.come = append(r.gone, &moved{Change: was, sum: c.sum}), append(r.come, &moved{Change: is, sum: c.sum})
			changes = append(changes, was, is)
		}
		begin := time.Now()
		if err := r.pair(); err != nil {
			t.Fatal(err)
		}
		if len(r.found) != c.want {
			t.Errorf("%s: %d are moved, want %d", name, len(r.found), c.want)
		}
		if r.keepRunning(changes); len(r.found) != 0 {
			t.Errorf("%s: %d are not visible", name, len(r.found))
		}
		t.Logf("%s: %v", name, time.Since(begin))
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: it takes %v", name, took)
		}
	}
}
