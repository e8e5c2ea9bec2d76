//go:build linux

package nsexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// TestMovedAway: moving a directory above a mount in a writable tree does not uncover what is mounted there, in one
// sandbox or from one to the next. The control is bubblewrap's way of mounting, where that works.
func TestMovedAway(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		for _, control := range []bool{true, false} {
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "p/a/b/.env: secret", "p/a/b/other: x", "p/lib/x/tool: good", "p/d/e/f/dir/key: secret")
			p := filepath.Join(dir, "p")
			plan := base(mounts.Bind(p, p), mounts.Block(p+"/a/b/.env"), mounts.ROBind(p+"/lib/x/tool", p+"/lib/x/tool"), mounts.Block(p+"/d/e/f/dir"))
			run := func(script string) string {
				c := in(classic, plan, "cd "+p+"; "+script)
				sandbox.Of(c).Bubblewrap = control
				return output(t, c)
			}
			// What is not above a rule can be moved, linked and removed as ever.
			if got := run(try + "try mv a/b/other a/b/o2; try mkdir a/n; try mv a/n n; try rmdir n; try ln a/b/o2 a/b/o3; try touch lib/x/new"); got != "yes\nyes\nyes\nyes\nyes\nyes" {
				t.Errorf("control %v: %q", control, got)
			}
			got := run(try + "try mv a a2; try mv d/e d/e2; try mv lib/x lib/y; mkdir -p a/b lib/x d/e/f/dir; echo bad >lib/x/tool; echo >a/b/.env; cat lib/x/tool")
			want := "no\nno\nno\ngood"
			if control {
				want = "yes\nyes\nyes\nbad"
			}
			if got != want {
				t.Errorf("control %v: %q, want %q", control, got, want)
			}
			found := run("grep -r secret . | wc -l")
			if want = "0"; control {
				want = "2"
			}
			if found != want {
				t.Errorf("control %v: the next one reads %s secrets, want %s", control, found, want)
			}
		}
	})
}

// TestShutAway: if a command closes a directory, or puts a link in its place, the next sandbox still hides what is in
// it, or does not start.
func TestShutAway(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "p/a/.env: secret", "p/l => a", "out/.env: x")
		p := filepath.Join(dir, "p")
		if err := os.Chmod(p+"/a", 0); err != nil {
			t.Fatal(err)
		}
		plan := base(mounts.Bind(p, p), mounts.Block(p+"/a/.env"))
		c := in(classic, plan, "chmod 700 "+p+"/a; cat "+p+"/a/.env 2>/dev/null || echo hidden")
		got, err := c.Output()
		if text := string(got); text != "hidden\n" && !(text == "" && errors.Is(err, syscall.EACCES)) {
			t.Errorf("got %q, %v", text, err)
		}
		for _, m := range []mounts.Mount{mounts.Block(p + "/l/.env"), mounts.Bind(dir+"/out/.env", p+"/l/.env"), mounts.Tmpfs(p + "/l/new"), mounts.Block(p + "/l")} {
			err := in(classic, base(mounts.Bind(p, p), m), "true").Run()
			if !errors.Is(err, syscall.ELOOP) {
				t.Errorf("%s %s: %v", m.Kind, m.Target, err)
			}
		}
		// Where no command can have put it, a link is followed as ever.
		if got := output(t, in(classic, base(mounts.Block(p+"/l/.env")), "cat "+p+"/a/.env 2>/dev/null || echo hidden")); got != "hidden" {
			t.Errorf("got %q", got)
		}
	})
}
