//go:build linux

package nsrun_test

import (
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestThousandRuns: 1,000 runs in a row, or 100 or 200 where time is short, and 16 at once leave no
// descriptor, no process, no mount, no file, no session, and no memory.
func TestThousandRuns(t *testing.T) {
	runs := testenv.Rounds(testenv.Fewer(200), 1000)
	if testenv.RaceDetector {
		runs = 100
	}
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "f: 1"), "p")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what has finalizers goes with the second one
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, c := range map[string]nsrun.Config{"in a row": {Project: p, After: nsrun.Commit}, "in one session": {Project: p}} {
		t.Run(name, func(t *testing.T) {
			r := nsrun.NewRunner(c)
			run := func() {
				if res, err := r.Run(t.Context(), nsrun.Request{Args: []string{"true"}}); err != nil || res.ExitCode != 0 {
					t.Errorf("%s, %v", res, err)
				}
			}
			run()
			before := heap()
			for range runs / 2 {
				run()
			}
			var grown int64
			if !testenv.Poll(testenv.Patience, func() bool { // goroutines that end, and finalizers, may have to wait for a processor
				grown = int64(heap()) - int64(before)
				return grown <= int64(64<<10+runs<<9)
			}) {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			if err := r.Close(); err != nil || sessions(t) != 0 {
				t.Errorf("%v, %d sessions", err, sessions(t))
			}
		})
	}
	t.Run("16 at once", func(t *testing.T) {
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				for range max(runs/100, 3) {
					if res, err := r.Run(t.Context(), nsrun.Request{Args: []string{"true"}}); err != nil || res.ExitCode != 0 {
						t.Errorf("%s, %v", res, err)
					}
				}
			})
		}
		group.Wait()
		if n := sessions(t); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}
