//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
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

// TestGitLinks: git takes a new link with another inode number for an attack. So git's links have the number that the
// file had. The control is another program: its first link has a number that would make git fail, except for a file of
// the session.
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
	need(t, features.Overlay) // in a copy of the project a link has the file's number, whoever makes it
	if got, want := link("other"), "old false true\nold true true\nsub/old false true\nsub/old true true\n"+new; got != want {
		t.Errorf("the control:\n%s", got)
	}
}

// insideReplace links each file while another thread replaces it, a little later each time, and prints what is lost.
func insideReplace(names []string) int {
	for i, name := range names {
		fresh, to := name+".new", name+".link"
		if err := os.WriteFile(fresh, []byte("new"), 0o644); err != nil {
			fmt.Println(err)
			return 1
		}
		begin, replaced := make(chan bool), make(chan error)
		go func() {
			<-begin
			for start := time.Now(); time.Since(start) < time.Duration(i%100)*20*time.Microsecond; {
			}
			replaced <- os.Rename(fresh, name)
		}()
		begin <- true
		err := unix.Link(name, to) // git may be told EXDEV
		err2 := <-replaced
		text, err3 := os.ReadFile(name)
		if err2 != nil || err3 != nil || string(text) != "new" {
			fmt.Println(name, "is not the newest:", string(text), err2, err3)
		}
		if text, err2 := os.ReadFile(to); err == nil && string(text) != "old" && string(text) != "new" {
			fmt.Println(to, "is not a link:", string(text), err2)
		}
	}
	return 0
}

// TestLinksAtOnce: a process that replaces a file while another one links it loses nothing, and no temporary name
// stays. Programs called git link in another way.
func TestLinksAtOnce(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	var tree, names []string
	for i := range testenv.Rounds(200, 2000) {
		name := fmt.Sprint("f", i)
		tree, names = append(tree, name+": old"), append(names, name)
	}
	exe, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"git", "other"} {
		dir := place(t, tree...)
		p := filepath.Join(dir, "p")
		if err := os.WriteFile(filepath.Join(p, program), exe, 0o755); err != nil {
			t.Fatal(err)
		}
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Discard})
		got := output(t, r, nsrun.Request{
			Command: "./" + program + " " + strings.Join(names, " ") + "; ls -A | grep nsrun; true",
			Env:     []string{insideEnv + "=replace", "GORACE=atexit_sleep_ms=0"},
		})
		if got != "" {
			t.Errorf("%s:\n%s", program, got)
		}
	}
}
