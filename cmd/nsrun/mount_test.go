//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestMountBelow: an overlay over what has another file system mounted below it
// cannot be mounted. For a project there is an error; a cache is as read-only as the rest.
func TestMountBelow(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/.cache/sub/", "home/.npm/", "p/a b/", "q/", "own/")
	p, sub := filepath.Join(dir, "p"), filepath.Join(dir, "p/a b")
	mounted(t, "tmpfs", sub, "tmpfs", 0)
	env := []string{"HOME=" + filepath.Join(dir, "home")}
	want := fmt.Sprintf("nsrun: project %s has another file system mounted at %s: an overlay cannot hold it (try: nsrun run --direct)\n", p, sub)
	for _, args := range [][]string{{"run", "true"}, {"run", "--explain", "true"}, {"run", "--project", "../q", "--project", ".", "true"}} {
		if status, out := nsrunIn(t, p, env, args...); status != 125 || out != want {
			t.Errorf("%q: status %d\n%s", args, status, out)
		}
	}
	// Nor can a copy.
	status, out := nsrunIn(t, p, env, "run", "--engine", "copy", "true")
	if end := "copy a b: invalid cross-device link (something is mounted inside the root) (try: nsrun run --direct)\n"; status != 125 || !strings.HasSuffix(out, ": "+end) {
		t.Errorf("a copy: status %d\n%s", status, out)
	}
	if status, out := nsrunIn(t, p, env, "run", "--direct", "touch", "new"); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	// A project that is a mount itself is not a problem.
	mounted(t, "tmpfs", filepath.Join(dir, "own"), "tmpfs", 0)
	if status, out := nsrunIn(t, filepath.Join(dir, "own"), env, "run", "-q", "--commit", "touch", "new"); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	// Caches.
	mounted(t, "tmpfs", filepath.Join(dir, "home/.cache/sub"), "tmpfs", 0)
	script := `touch $HOME/.npm/f && echo $XDG_CACHE_HOME && ! touch $HOME/.cache/f 2>/dev/null`
	if status, out := nsrunIn(t, filepath.Join(dir, "q"), env, "run", "-q", "sh", "-c", script); status != 0 || out != "/tmp/.cache\n" {
		t.Errorf("status %d\n%s", status, out)
	}
}
