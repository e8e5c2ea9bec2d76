//go:build linux

package fanotify

import (
	"bytes"
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

// TestOverlay: a command writes through an overlay in its own namespaces, and the upper directory is watched from
// outside. Some kernels (6.1) send no event to that watch for a write through the overlay: there Options.Sweep has to
// find it.
func TestOverlay(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "lower/old: x", "lower/gone: x", "lower/moved: x", "lower/d/e/deep: x", "lower/kept: x",
			"upper/kept: y", "work/", "merged/")
		upper := filepath.Join(dir, "upper")
		age(t) // what is in the upper directory is to be older than the watchers
		w := open(t, e, upper)
		sweeping, err := New(Options{Roots: []string{upper}, Engine: e, Sweep: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sweeping.Close()
		written := watchWrites(t, upper)
		c := exec.Command("/proc/self/exe", dir, `
			echo a >new; echo b >>new
			echo c >>old; rm gone; mv moved moved2
			mkdir n; echo x >n/f
			echo y >>d/e/deep
			echo z >>kept
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
		// What was renamed away has left a whiteout, which has no event of its own; the other was there before.
		m.apply(Event{Op: Created, Path: "moved"})
		m.apply(Event{Op: Created, Path: "kept"})
		m.compare(t, upper)
		want := []string{"created new", "attributes new", "created n/", "created n/f"}
		if written("new") {
			// Content that is written later is reported, too.
			want = append(want, "written new", "written kept")
		}
		for _, want := range want {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if delete(pids, 0); e == Fanotify && (pids[os.Getpid()] || len(pids) < 2) {
			t.Errorf("processes: %v", pids)
		}
		swept, errs := rest(t, sweeping)
		if len(errs) > 0 || !slices.Contains(swept, "written kept") {
			t.Errorf("with a sweep there is no %q in %q, %v", "written kept", swept, errs)
		}
	})
}

// watchWrites asks the kernel itself which files in a directory are written to. What it returns says whether
// the kernel has told of one.
func watchWrites(t *testing.T, dir string) (written func(name string) bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	return func(name string) bool {
		b := make([]byte, 64<<10)
		n, err := unix.Read(fd, b)
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return bytes.Contains(b[:max(n, 0)], []byte(name+"\x00"))
	}
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
