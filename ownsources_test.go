//go:build linux

package nsrun

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// TestOwnSourcesFollowNoLinks: somebody has replaced a folder of the plan by a link to a file that is not shown. The
// target does not get the command's ids. Links on the way to the home directory are the caller's own.
func TestOwnSourcesFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	testenv.Tree(t, dir, "secrets/", "real/cache/", "folder => secrets", "home => real")
	folder, home := filepath.Join(dir, "folder"), filepath.Join(dir, "home")
	if real, err := filepath.EvalSymlinks(folder); err != nil || real != filepath.Join(dir, "secrets") {
		t.Fatalf("control: %s, %v", real, err)
	}
	t.Setenv("HOME", home)
	x := &Execution{}
	x.homes[0].at = filepath.Join(dir, "real")
	box := &plan.Sandbox{
		Mounts: mounts.Plan{mounts.Bind(folder, folder), mounts.TmpOverlay(home+"/cache", home+"/cache")},
		Layers: []plan.Layer{plan.InPlaceLayer, plan.CacheLayer},
	}
	list, _ := ownSources(box, "", x.unlinked)
	if len(list) != 2 || list[0].path != folder || list[1].path != filepath.Join(dir, "real/cache") {
		t.Errorf("%+v", list)
	}
}
