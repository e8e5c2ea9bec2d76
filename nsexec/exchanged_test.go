//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// fileID is the identity of a file.
func fileID(t *testing.T, name string) mounts.FileID {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}

// known are mounts of directory p at its own path, which is checked, with the identity of what was there.
func known(id mounts.FileID, p, up, work string) (list []mounts.Mount) {
	list = []mounts.Mount{mounts.Bind(p, p), mounts.Overlay(p, up, work, p), mounts.TmpOverlay(p, up, p)}
	for i := range list {
		list[i].Same, list[i].Onto = id, id
	}
	return list
}

// TestExchanged: if a directory was exchanged with another one after somebody looked at it, it is not mounted, and
// nothing is mounted over it.
func TestExchanged(t *testing.T) {
	need(t, features.Overlay)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "p/f: mine", "q/f: other", "copy/f: copy", "up/", "work/")
		at := func(name string) string { return filepath.Join(dir, name) }
		id := fileID(t, at("p"))
		list := known(id, at("p"), at("up"), at("work"))
		onto := mounts.Bind(at("copy"), at("p"))
		onto.Onto = id
		source := mounts.TmpOverlay("/mnt/o", at("p"))
		source.Same = id
		list = append(list, onto, source)
		see := func(m mounts.Mount) (string, error) {
			out, err := in(classic, base(m), "cat "+m.Target+"/f").Output()
			return strings.TrimSpace(string(out)), err
		}
		for i, m := range list {
			want := "mine"
			if i == 3 {
				want = "copy"
			}
			if got, err := see(m); got != want || err != nil {
				t.Errorf("%v: %q, %v", m, got, err)
			}
			_ = os.Chmod(at("work/work"), 0o700)
		}
		if err := unix.Renameat2(unix.AT_FDCWD, at("p"), unix.AT_FDCWD, at("q"), unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
		for i, m := range list {
			got, err := see(m)
			if e, ok := errors.AsType[*nsexec.Error](err); !ok || e.Err != syscall.ESTALE || e.Part != nsexec.PartChanged {
				t.Errorf("exchanged, %v: %q, %v", m, got, err)
			}
			want := "other"
			if i == 3 {
				want = "copy"
			}
			m.Same, m.Onto = mounts.FileID{}, mounts.FileID{}
			if got, err := see(m); got != want || err != nil {
				t.Errorf("control, %v: %q, %v", m, got, err)
			}
			_ = os.Chmod(at("work/work"), 0o700)
		}
	})
}

// TestExchangedMeanwhile: somebody who owns the parent of a directory exchanges it with another one, as fast as
// possible. What is hidden or read-only in it stays so under either name.
func TestExchangedMeanwhile(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "p/a/.env: hidden", "p/hooks/", "q/a/.env: x", "q/hooks/")
		p, q := filepath.Join(dir, "p"), filepath.Join(dir, "q")
		id, hooks := fileID(t, p), fileID(t, p+"/hooks")
		testenv.Swap(t, testenv.Pair{A: p, B: q})
		seen := func(checked bool) (wrong, right int) {
			starts(t, rounds(200), func(i int) *nsexec.Cmd {
				m, ro := mounts.Bind(p, p), mounts.ROBind(p+"/hooks", p+"/hooks")
				if features.Has(features.Overlay) && i%2 == 0 {
					m = mounts.TmpOverlay(p, p)
				}
				if checked {
					m.Same, m.Onto, ro.Same = id, id, hooks
				}
				return in(classic, base(m, mounts.Block(p+"/a/.env"), ro), "cat "+p+"/a/.env "+q+"/a/.env 2>/dev/null; for d in "+p+" "+q+
					"; do { echo >$d/hooks/new; } 2>/dev/null && echo written; done; true")
			}, func(_ int, out string) error {
				if strings.Contains(out, "hidden") || strings.Contains(out, "written") {
					wrong++
					if checked {
						return fmt.Errorf("said %q", out)
					}
				} else {
					right++
				}
				return nil
			}, func(started, refused int) bool {
				return checked && (started == 0 || refused == 0) || !checked && wrong == 0
			})
			return wrong, right
		}
		if wrong, _ := seen(false); wrong == 0 {
			t.Error("control: the exchange never hit the right moment")
		}
		_ = os.Remove(p + "/hooks/new")
		_ = os.Remove(q + "/hooks/new")
		if _, right := seen(true); right == 0 {
			t.Error("nothing was started")
		}
	})
}

// TestPinnedAbove: a mount in a directory of the sandbox's own stays reachable for later steps after that directory is
// bound onto itself.
func TestPinnedAbove(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "p/c/d: secret", "p/in/e/f: secret", "ro/")
		p := filepath.Join(dir, "p")
		plan := base(mounts.Bind(p, "/mnt/a/p"), mounts.Bind(p+"/in", "/mnt/a/p/in"))
		got := output(t, in(classic, append(plan, mounts.ROBind(dir+"/ro", "/mnt/a/x/y"), mounts.Block("/mnt/a/p/c/d"), mounts.Block("/mnt/a/p/in/e/f")),
			try+"try cat /mnt/a/p/c/d; try cat /mnt/a/p/in/e/f; try mv /mnt/a/p/c /mnt/a/p/c2; try mv /mnt/a /mnt/b"))
		if got != "no\nno\nno\nno" {
			t.Errorf("got %q", got)
		}
		if got := output(t, in(classic, plan, try+"try cat /mnt/a/p/c/d; try cat /mnt/a/p/in/e/f")); got != "yes\nyes" {
			t.Errorf("control: %q", got)
		}
	})
}
