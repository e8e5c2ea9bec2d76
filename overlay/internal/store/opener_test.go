//go:build linux

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// shut makes a directory that its owner has no access to, and in it a file.
func shut(t *testing.T) (o *Opener, dir *tree.Handle) {
	t.Helper()
	testenv.NeedUser(t) // whom modes stop
	if !features.Has(features.UserNamespaces) {
		testenv.Skip(t, string(features.UserNamespaces), "no user namespaces")
	}
	top := testenv.Dir(t)
	d := filepath.Join(top, "d")
	for _, err := range []error{
		os.Mkdir(d, 0o700),
		os.WriteFile(filepath.Join(d, "f"), []byte("text"), 0o600),
		unix.Setxattr(filepath.Join(d, "f"), "user.x", []byte("value"), 0),
		os.Chmod(filepath.Join(d, "f"), 0),
		os.Symlink("f", filepath.Join(d, "l")),
		os.Chmod(d, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(d, 0o700) })
	h, err := tree.OpenAbs(d, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	if _, err := h.Lstat("f"); err != unix.EACCES {
		t.Fatalf("without an opener: %v", err) // the control
	}
	o = &Opener{}
	t.Cleanup(o.Close)
	return o, h.With(o)
}

func TestOpener(t *testing.T) {
	testenv.Leaks(t)
	o, dir := shut(t)
	st, err := dir.Lstat("f")
	if err != nil || st.Size != 4 || st.Perm() != 0 {
		t.Errorf("lstat: %+v, %v", st, err)
	}
	if _, found, err := dir.LstatIf("missing"); found || err != nil {
		t.Errorf("a missing name: %v, %v", found, err)
	}
	worker := o.worker
	d, err := dir.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if names, err := d.Names(); len(names) != 2 || err != nil {
		t.Errorf("names: %q, %v", names, err)
	}
	data, err := dir.ReadFile("f", 100)
	if string(data) != "text" || err != nil {
		t.Errorf("read: %q, %v", data, err)
	}
	f, err := dir.Open("f", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if x, err := f.Xattrs(); x["user.x"] != "value" || err != nil {
		t.Errorf("attributes: %q, %v", x, err)
	}
	if n, err := o.OwnXattr(f.FD, "user.x", make([]byte, 3)); err != unix.ERANGE {
		t.Errorf("a small buffer: %d, %v", n, err)
	}
	if o.worker != worker {
		t.Error("a name that is missing, or a small buffer, took a new process")
	}

	// It opens for reading alone, and follows no link.
	for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR} {
		if _, err := dir.Open("f", flags); err != unix.EACCES {
			t.Errorf("flags %d: %v", flags, err)
		}
	}
	if _, err := dir.Open("l", unix.O_RDONLY); err != unix.ELOOP {
		t.Errorf("a link: %v", err)
	}
	if _, err := dir.Open("../d", unix.O_RDONLY); err != unix.EXDEV && err != unix.EACCES {
		t.Errorf("a path that leads out: %v", err)
	}
	if _, err := dir.Lstat("f"); err != nil {
		t.Errorf("after a failure: %v", err)
	}
	o.Close()
	if _, err := dir.Lstat("f"); err != unix.EACCES {
		t.Errorf("closed: %v", err)
	}
}

// What belongs to somebody else stays closed.
func TestOpenerForeign(t *testing.T) {
	testenv.Leaks(t)
	o, _ := shut(t)
	if !o.Works() {
		t.Fatal("it does not work")
	}
	etc, err := tree.OpenAbs("/etc", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer etc.Close()
	if st, err := etc.Lstat("shadow"); err != nil || st.Owned() || st.Perm()&0o004 != 0 {
		testenv.Skip(t, "a closed /etc/shadow", fmt.Sprintf("%+v, %v", st, err))
	}
	// Both with and without the check of the owner that comes first.
	if _, err := etc.With(o).Open("shadow", unix.O_RDONLY); err != unix.EACCES {
		t.Errorf("/etc/shadow: %v", err)
	}
	if _, err := o.OpenOwn(etc.FD, "shadow", unix.O_RDONLY, unix.RESOLVE_BENEATH, unix.EACCES); err != unix.EACCES {
		t.Errorf("/etc/shadow: %v", err)
	}
}

// One process runs a limited number of requests, and goroutines may ask at the same time.
func TestOpenerMany(t *testing.T) {
	testenv.Leaks(t)
	o, dir := shut(t)
	var team sync.WaitGroup
	errs := make(chan error, 4)
	for i := range 4 {
		team.Go(func() {
			for range openerMost/4 + 10 {
				st, err := dir.Lstat("f")
				if err != nil || st.Size != 4 {
					errs <- fmt.Errorf("goroutine %d: %v, %v", i, st, err)
					return
				}
			}
		})
	}
	team.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if o.left >= openerMost-4 || o.left <= 0 {
		t.Errorf("%d requests left", o.left)
	}
}

// If no descriptor is free, nothing seems to be missing.
func TestOpenerFull(t *testing.T) {
	testenv.Leaks(t)
	o, dir := shut(t)
	if !o.Works() {
		t.Fatal("it does not work")
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	probe, err := unix.Dup(int(dir.FD))
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(probe)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(probe), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err = o.OpenOwn(dir.FD, "f", unix.O_PATH, unix.RESOLVE_BENEATH, unix.ENOENT)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err != unix.EMFILE {
		t.Errorf("no descriptor is free: %v", err)
	}
	if _, err := dir.Lstat("f"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// If somebody kills the process, the next request gets another one.
func TestOpenerKilled(t *testing.T) {
	testenv.Leaks(t)
	o, dir := shut(t)
	if !o.Works() {
		t.Fatal("it does not work")
	}
	for _, p := range testenv.Processes() {
		if p.Parent == os.Getpid() {
			if err := unix.Kill(p.Pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "its end", func() bool { return !testenv.Alive(p.Pid) })
		}
	}
	if _, err := o.OpenOwn(dir.FD, "f", unix.O_PATH, unix.RESOLVE_BENEATH, unix.ENOENT); err == nil {
		t.Fatal("it was not killed") // the control
	}
	if st, err := dir.Lstat("f"); err != nil || st.Size != 4 {
		t.Errorf("afterwards: %+v, %v", st, err)
	}
}
