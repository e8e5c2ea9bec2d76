//go:build linux

package tree

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSyncTree: few plain objects are flushed one by one, and everything else with its file system.
func TestSyncTree(t *testing.T) {
	for _, test := range []struct {
		name, script string
		each         int // how many objects are flushed one by one; 0: none
	}{
		{"empty", ``, 1},
		{"plain", `mkdir -p a/b; echo 1 >a/f; echo 2 >a/b/g`, 5},
		{"most", `for i in $(seq 63); do echo $i >f$i; done`, FsyncMost},
		{"many", `for i in $(seq 65); do echo $i >f$i; done`, 0},
		{"many below", `for i in 1 2 3 4; do mkdir d$i; for k in $(seq 20); do echo >d$i/f$k; done; done`, 0},
		{"link", `ln -s x y`, 0},
		{"FIFO", `mkfifo p`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.Leaks(t)
			dir := testenv.Dir(t)
			sh := exec.Command("/bin/sh", "-euc", test.script)
			sh.Dir = dir
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			h, err := OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			d, err := h.OpenDir(".")
			if err != nil {
				t.Fatal(err)
			}
			var f Flusher
			got := 0
			if f.addTree(d) {
				got = len(f.Files) + len(f.Dirs)
			}
			f.Close()
			if got != test.each {
				t.Errorf("%d objects are flushed one by one, want %d", got, test.each)
			}
			if err := SyncTree(h); err != nil {
				t.Error(err)
			}
		})
	}
}
