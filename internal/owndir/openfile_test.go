//go:build linux

package owndir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestOpenFile: a file is opened only where nobody but root, or with user the caller, can have put or written it.
// Opening follows no link, waits for nothing, and opens regular files only.
func TestOpenFile(t *testing.T) {
	const stranger = 54321
	root := testenv.Root()
	for _, c := range []struct {
		name string
		make func(dir string) error // besides a/f, mode 0644 in a directory of mode 0755
		file string                 // empty: a/f
		need bool                   // root, who can give files away
		want string                 // what is wrong; "-": nothing is
		gone bool                   // the error says that it does not exist
	}{
		{name: "own", want: "-"},
		{name: "private", make: func(dir string) error { return os.Chmod(dir+"/a/f", 0o400) }, want: "-"},
		{name: "read by all, in a closed directory", make: func(dir string) error { return os.Chmod(dir+"/a", 0o700) }, want: "-"},
		{name: "not there", file: "a/none", want: "no such file", gone: true},
		{name: "directory not there", file: "none/f", want: "no such file", gone: true},
		{name: "below a file", file: "a/f/g", want: "not a directory"},
		{name: "group can write", make: func(dir string) error { return os.Chmod(dir+"/a/f", 0o664) }, want: "others can write to it"},
		{name: "all can write", make: func(dir string) error { return os.Chmod(dir+"/a/f", 0o646) }, want: "others can write to it"},
		{name: "group can write to the directory", make: func(dir string) error { return os.Chmod(dir+"/a", 0o775) }, want: "others can write to it"},
		{name: "all can write to the directory", make: func(dir string) error { return os.Chmod(dir+"/a", 0o777) }, want: "everybody can write to it"},
		{name: "all can write to the directory, which is sticky", make: func(dir string) error { return os.Chmod(dir+"/a", 0o777|os.ModeSticky) }, want: "others can write to it"},
		{name: "all can write above", make: func(dir string) error { return os.Chmod(dir, 0o777) }, want: "everybody can write to it"},
		{name: "all can write above, which is sticky", make: func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, want: "-"},
		{name: "link", make: func(dir string) error { return os.Symlink("f", dir+"/a/l") }, file: "a/l", want: "symbolic links"},
		{name: "link to nothing", make: func(dir string) error { return os.Symlink("none", dir+"/a/l") }, file: "a/l", want: "symbolic links"},
		{name: "link to a device", make: func(dir string) error { return os.Symlink("/dev/zero", dir+"/a/l") }, file: "a/l", want: "symbolic links"},
		{name: "link above", make: func(dir string) error { return os.Symlink("a", dir+"/l") }, file: "l/f", want: "not a directory"},
		{name: "magic link above", file: "../../../../../../../../../proc/self/cwd/f", want: "not a directory"},
		{name: "FIFO", make: func(dir string) error { return unix.Mkfifo(dir+"/a/p", 0o600) }, file: "a/p", want: "not a regular file"},
		{name: "socket", make: func(dir string) error {
			return unix.Mknod(dir+"/a/s", unix.S_IFSOCK|0o600, 0)
		}, file: "a/s", want: "no such device"},
		{name: "directory", make: func(dir string) error { return os.Mkdir(dir+"/a/d", 0o700) }, file: "a/d", want: "not a regular file"},
		{name: "device", make: func(dir string) error { return unix.Mknod(dir+"/a/z", unix.S_IFCHR|0o600, 1<<8|5) }, file: "a/z", need: true, want: "regular file"},
		{name: "a stranger's", make: func(dir string) error { return os.Chown(dir+"/a/f", stranger, stranger) }, need: true, want: "it belongs to user 54321"},
		{name: "in a stranger's directory", make: func(dir string) error { return os.Chown(dir+"/a", stranger, stranger) }, need: true, want: "it belongs to user 54321"},
		{name: "below a stranger's directory", make: func(dir string) error { return os.Chown(dir, stranger, stranger) }, need: true, want: "it belongs to user 54321"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.need {
				testenv.NeedRoot(t)
			}
			testenv.Leaks(t)
			dir := filepath.Join(testenv.Dir(t), "d")
			testenv.Tree(t, dir, "a/f: content")
			if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(dir+"/a", 0o755), os.Chmod(dir+"/a/f", 0o644)); err != nil {
				t.Fatal(err)
			}
			if c.make != nil {
				if err := c.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			file := c.file
			if file == "" {
				file = "a/f"
			}
			for _, user := range []bool{true, false} {
				text, err := read(filepath.Join(dir, file), user)
				_, typed := errors.AsType[*fs.PathError](err)
				switch {
				case !user && !root: // all of it is the caller's
					if !typed {
						t.Errorf("a file that does not belong to root is opened: %v", err)
					}
				case c.want == "-":
					if err != nil || text != "content" {
						t.Errorf("user %t: %q, %v", user, text, err)
					}
				case !typed || !strings.Contains(err.Error(), c.want) || c.gone != errors.Is(err, fs.ErrNotExist):
					t.Errorf("user %t: %q, %v", user, text, err)
				}
			}
		})
	}
	// Root's files are good for everybody.
	for _, user := range []bool{true, false} {
		if text, err := read("/etc/passwd", user); err != nil || text == "" {
			t.Error(err)
		}
	}
}

func read(path string, user bool) (string, error) {
	fd, err := OpenFile(path, user)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

func TestMain(m *testing.M) { testenv.Main(m) }
