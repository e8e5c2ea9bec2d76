//go:build linux

package fanotify

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// overlayHelper mounts an overlay in namespaces of its own, and runs a script in it, as
// a session does: its arguments are the directory that has all, and the script.
func overlayHelper() int {
	dir, script := os.Args[1], os.Args[2]
	fail := func(code int, err error) int {
		fmt.Fprintln(os.Stderr, err)
		return code
	}
	// The namespaces were made by the clone, before there were threads.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fail(exitNoMount, err)
	}
	m := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,userxattr", dir)
	if err := unix.Mount("overlay", m, "overlay", 0, options); err != nil {
		return fail(exitNoMount, err)
	}
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = m
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fail(1, err)
	}
	return 0
}

const exitNoMount = 77

// TestOverlay: a command writes through an overlay, in its own namespaces, and the upper
// directory is watched from outside.
func TestOverlay(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "lower/old: x", "lower/gone: x", "lower/moved: x", "lower/d/e/deep: x", "upper/", "work/", "merged/")
		w := open(t, e, filepath.Join(dir, "upper"))
		c := exec.Command("/proc/self/exe", dir, `
			echo a >new; echo b >>new
			echo c >>old; rm gone; mv moved moved2
			mkdir n; echo x >n/f
			echo y >>d/e/deep
			chmod 700 new`)
		c.Env = append(os.Environ(), helperEnv+"=overlay")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		if !testenv.Root() {
			c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := c.CombinedOutput()
		// overlayfs makes a directory that its owner may not even list.
		_ = os.Chmod(filepath.Join(dir, "work/work"), 0o700)
		if err != nil {
			if c.ProcessState == nil || c.ProcessState.ExitCode() == exitNoMount {
				testenv.Skip(t, "overlay", fmt.Sprintf("%v: %s", err, out))
			}
			t.Fatalf("%v: %s", err, out)
		}
		w.Stop()
		m := &model{}
		var got []string
		pids := map[int]bool{}
		for ev, err := range w.Events() {
			if err != nil {
				t.Error(err)
			}
			m.apply(ev)
			got = append(got, text(ev))
			pids[ev.PID] = true
		}
		// What was renamed away has left a whiteout, which has no event of its own.
		m.apply(Event{Op: Created, Path: "moved"})
		m.compare(t, filepath.Join(dir, "upper"))
		// Content that is written later is told too.
		for _, want := range []string{"created new", "written new", "attributes new", "created n/", "created n/f"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if delete(pids, 0); e == Fanotify && (pids[os.Getpid()] || len(pids) < 2) {
			t.Errorf("processes: %v", pids)
		}
	})
}

// TestUserNamespace: root of a user namespace may watch a whole file system that was mounted
// in it (Linux 6.16).
func TestUserNamespace(t *testing.T) {
	dir := testenv.Dir(t)
	c := exec.Command("/proc/self/exe", dir)
	c.Env = append(os.Environ(), helperEnv+"=userns")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if err != nil && (c.ProcessState == nil || c.ProcessState.ExitCode() == exitNoMount) {
		testenv.Skip(t, "fanotify-userns", fmt.Sprintf("%v: %s", err, out))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// usernsHelper is what TestUserNamespace runs.
func usernsHelper() int {
	dir := os.Args[1]
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitNoMount
	}
	w, err := New(Options{Roots: []string{dir}, Engine: Fanotify})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitNoMount
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	w.Stop()
	var got []string
	for ev, err := range w.Events() {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		got = append(got, text(ev))
	}
	if want := []string{"created a/", "created a/b/"}; !slices.Equal(got, want) {
		fmt.Fprintf(os.Stderr, "got %q, want %q\n", got, want)
		return 1
	}
	return 0
}
