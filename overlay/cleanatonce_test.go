//go:build linux

package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// TestCleanAtOnce: what a killed process left is removed by several others at once, and none of them complains.
func TestCleanAtOnce(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	old := time.Now().Add(-2 * orphanAge)
	const left = 30
	for round := range 10 {
		for i := range left {
			name := fmt.Sprintf("%s20260102T0304%02dZ-abcdefgh", store.GonePrefix, i)
			testenv.Tree(t, dir, name+"/lock", name+"/upper/a/b: x", name+"/upper/c/d: x", name+"/work/")
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for c, err := range Clean(dir, CleanOptions{}) {
					if err != nil {
						t.Errorf("round %d: %+v: %v", round, c, err)
					}
				}
			})
		}
		all.Wait()
		if names, err := filepath.Glob(dir + "/" + store.GonePrefix + "*"); err != nil || len(names) > 0 {
			t.Errorf("round %d: left are %q, %v", round, names, err)
		}
	}
}
