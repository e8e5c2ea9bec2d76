//go:build linux

package homelayer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// keeperEnv has a helper keep what is in a layer, once.
const keeperEnv = "HOMELAYER_TEST_KEEPER"

func keepOnce(path string) int {
	if err := strike.Begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	_, err := Keep(path, filepath.Dir(filepath.Dir(path)), "d", KeepOptions{Replace: true})
	strike.End()
	if err != nil {
		return 1
	}
	return 0
}

// TestKeepStruck kills a process that keeps a new file, and one that keeps a file over another, at each of its system
// calls. The next keep or reset removes its leftovers from the home directory, and the file that was to be replaced is
// not lost.
func TestKeepStruck(t *testing.T) {
	testenv.Leaks(t)
	scene := func() (path, home string) {
		path = place(t)
		home = filepath.Dir(filepath.Dir(path))
		testenv.Tree(t, home, "d/b: mine")
		l := take(t, path)
		testenv.Tree(t, l.Upper(), "d/a: new", "d/b: theirs")
		release(t, l)
		return path, home
	}
	path, _ := scene()
	whole := struck(t, keeperEnv, path, strike.Plan{})
	if whole.ExitCode != 0 || whole.Calls < 20 {
		t.Fatalf("%+v", whole)
	}
	left := 0
	step := max(1, whole.Calls/testenv.Rounds(12, whole.Calls))
	for k := 1; k <= whole.Calls; k += step {
		path, home := scene()
		struck(t, keeperEnv, path, strike.Plan{At: k, Do: strike.Kill})
		if strings.Contains(text(t, home+"/d"), keptBegin) {
			left++
		}
		if k%2 == 0 {
			if err := Remove(path); err != nil {
				t.Error(err)
			}
			if got := text(t, home+"/d"); strings.Contains(got, keptBegin) {
				t.Errorf("killed at %d, and removed: %s", k, got)
			}
			continue
		}
		if _, err := Keep(path, home, "d", KeepOptions{Replace: true}); err != nil {
			t.Error(err)
		}
		if got := text(t, home+"/d"); got != "a: new b: theirs" {
			t.Errorf("killed at %d, and kept: %s", k, got)
		}
		if got := text(t, path); !strings.Contains(got, ": mine") || strings.Contains(got, noteName) {
			t.Errorf("killed at %d, and kept: the layer has %s", k, got)
		}
	}
	if left == 0 {
		t.Error("none of them left anything")
	}
}
