//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// insideLink links files as git does when it clones a local repository, and prints whether it would be content.
func insideLink(names []string) int {
	for _, name := range names {
		var before, after unix.Stat_t
		for i, link := range []func(from, to string) error{unix.Link, func(from, to string) error {
			return unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, 0)
		}} {
			if err := unix.Lstat(name, &before); err != nil {
				fmt.Println(err)
				return 1
			}
			to := fmt.Sprint(name, ".", i)
			if err := link(name, to); err != nil {
				fmt.Println(name, unix.ErrnoName(err.(unix.Errno)), unix.Lstat(to, &after) == nil)
				continue
			}
			err := unix.Lstat(to, &after)
			fmt.Println(name, after.Ino == before.Ino, err == nil && after.Nlink > 1)
		}
	}
	return 0
}

// TestGitLinks: git, which takes another inode number of a new link for an attack, has links with the number that the file had.
// The control is another program: its first link has a number that git would die of, except for a file of the session.
func TestGitLinks(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "old: x\n", "sub/old: x\n")
	p := filepath.Join(dir, "p")
	exe, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"git", "other"} {
		if err := os.WriteFile(filepath.Join(p, name), exe, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard})
	link := func(program string) string {
		return output(t, r, nsrun.Request{
			Command: "echo new >new; ./" + program + " old sub/old new", Env: []string{insideEnv + "=link", "GORACE=atexit_sleep_ms=0"},
		})
	}
	const new = "new true true\nnew true true\n"
	if got, want := link("git"), "old true true\nold true true\nsub/old true true\nsub/old true true\n"+new; got != want {
		t.Errorf("git:\n%s", got)
	}
	if got, want := link("other"), "old false true\nold true true\nsub/old false true\nsub/old true true\n"+new; got != want {
		t.Errorf("the control:\n%s", got)
	}
}
