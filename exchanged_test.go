//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestExchangedRoot: the owner of the project's parent directory exchanges the project with another directory after the
// session was made. With every engine, no command sees the other directory, and none sees the project without its
// session.
func TestExchangedRoot(t *testing.T) {
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineTmpfs, overlay.EngineCopy} {
		for _, control := range []bool{true, false} {
			dir := place(t, "f: mine")
			testenv.Tree(t, dir, "q/f: other")
			p, q := filepath.Join(dir, "p"), filepath.Join(dir, "q")
			s, err := overlay.Create(overlay.Options{Roots: []string{p}, Engine: engine})
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_EXCHANGE); err != nil {
				t.Fatal(err)
			}
			plan := append(mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}, s.Mounts()...)
			for i := range plan {
				if control {
					plan[i].Same, plan[i].Onto = mounts.FileID{}, mounts.FileID{}
				}
			}
			c := nsexec.Command("sh", "-c", "cat "+p+"/f "+q+"/f; : >>"+p+"/f && cat "+p+"/f")
			c.Mounts, c.Layers, c.Stderr = plan, s.Layers(), os.Stderr
			out, err := c.Output()
			if control {
				want := "othermineother"
				if engine == overlay.EngineCopy {
					want = "mineminemine"
				}
				if got := strings.TrimSpace(string(out)); got != want || err != nil {
					t.Errorf("control, %s: %q, %v", engine, got, err)
				}
			} else if e, ok := err.(*nsexec.Error); !ok || e.Part != nsexec.PartChanged || len(out) > 0 {
				t.Errorf("%s: %q, %v", engine, out, err)
			}
			if err := s.Remove(); err != nil {
				t.Error(err)
			}
		}
	}
}
