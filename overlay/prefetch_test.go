//go:build linux

package overlay

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestWide: many directories beside each other, on several levels, are listed in path order wherever the consumer
// stops.
func TestWide(t *testing.T) {
	testenv.Once(t)
	testenv.Leaks(t)
	base := tempDir(t)
	root := filepath.Join(base, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Create(Options{Roots: []string{root}, Dir: filepath.Join(base, "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	upper := s.Roots()[0].Upper
	var fill func(dir string, wide, deep int)
	fill = func(dir string, wide, deep int) {
		for i := range 3 {
			if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < wide && deep > 0; i++ {
			sub := filepath.Join(dir, "d"+strconv.Itoa(i))
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			fill(sub, 3, deep-1)
		}
	}
	fill(upper, 3*tree.MaxAhead, 4)
	// Too large to be prefetched, and for one chunk, on two levels.
	for _, dir := range []string{"d1", "d1/d2"} {
		for i := range tree.MaxSights {
			if err := os.Mkdir(filepath.Join(upper, dir, "n"+strconv.Itoa(i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	var want []string
	err = filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(upper, path); err == nil && rel != "." {
			want = append(want, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{len(want), 1, 2, 50, len(want) / 2, len(want) - 1} {
		var got []string
		for c, err := range s.Changes() {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, c.Path); len(got) == most {
				break
			}
		}
		if !slices.Equal(got, want[:most]) {
			t.Errorf("%d changes are not the first %d of %d in order", len(got), most, len(want))
		}
	}
}
