//go:build linux

package sys

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestMkdir: the owner can use a directory whatever the umask is, and others get no more permissions than the umask
// allows. The control is mkdirat(2).
func TestMkdir(t *testing.T) {
	testenv.Leaks(t)
	dir, at := openDir(t)
	for _, test := range []struct {
		umask      int
		plain, own os.FileMode
	}{{0, 0o755, 0o755}, {0o077, 0o700, 0o700}, {0o177, 0o600, 0o700}, {0o777, 0, 0o700}, {0o320, 0o455, 0o755}} {
		for name, make := range map[string]func(int, string, uint32) error{"plain": unix.Mkdirat, "own": Mkdir} {
			want := map[string]os.FileMode{"plain": test.plain, "own": test.own}[name]
			old := unix.Umask(test.umask)
			err := make(at, name, 0o755)
			unix.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := os.Stat(dir + "/" + name); err != nil || fi.Mode().Perm() != want {
				t.Errorf("umask %#o, %s: %v, %v; want %v", test.umask, name, fi.Mode(), err, want)
			}
			if err := os.Remove(dir + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Mkdir(at, ".", 0o700); err != unix.EEXIST {
		t.Error(err)
	}
}

// TestUmaskOfFiles: the owner can read and write a file whatever the umask is. The control is openat(2).
func TestUmaskOfFiles(t *testing.T) {
	testenv.Leaks(t)
	dir, at := openDir(t)
	old := unix.Umask(0o733)
	plain, err := unix.Openat(at, "plain", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	own, err2 := OwnFile(FD(at), "own", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	shared, err3 := Openat2(at, "shared", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644, 0)
	unix.Umask(old)
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	unix.Close(plain)
	own.Close()
	unix.Close(shared)
	for name, want := range map[string]os.FileMode{"plain": 0o044, "own": 0o600, "shared": 0o644} {
		if fi, err := os.Stat(dir + "/" + name); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, want)
		}
	}
	if f, err := OwnFile(FD(at), "own", unix.O_RDONLY); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

// TestSomeNames: of a directory with many names no more are read than it takes to know that there are many.
func TestSomeNames(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	const all, most = 500, 100
	for i := range all {
		if err := os.WriteFile(dir+"/"+strconv.Itoa(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 1<<10)
	if names, err := SomeNames(fd, buf, most); err != nil || len(names) <= most || len(names) == all {
		t.Errorf("%d names, %v", len(names), err)
	}
	if names, err := SomeNames(fd, buf, all); err != nil || len(names) != all {
		t.Errorf("all of them: %d, %v", len(names), err)
	}
}

// openDir makes a directory, and opens it until the test ends.
func openDir(t *testing.T) (dir string, at int) {
	t.Helper()
	dir = testenv.Dir(t)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(at) })
	return dir, at
}
