//go:build linux

package nsrun_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// A workspace that a command wrote to directly was the upper directory of an overlay. When Run returns, that is
// unmounted: the next command's overlay has the same one. With index=on the kernel tells.
func TestWorkspaceUnmounted(t *testing.T) {
	testenv.NeedRoot(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/f: 1", "lower/", "work/", "at/")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Preset: nsrun.WorkspaceRootPreset})
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/p,workdir=%[1]s/work,index=on", dir)
	at := filepath.Join(dir, "at")
	for range 10 {
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || res.ExitCode != 0 {
			t.Fatal(res, err)
		}
		if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
			t.Fatal(err)
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
}
