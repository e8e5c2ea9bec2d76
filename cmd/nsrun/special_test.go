package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSpecialFiles: where an option opens a file in a writable bind there may be a
// link, a FIFO, a socket, a device, a directory. Nothing outside is changed through
// it, and nobody waits for ever.
func TestSpecialFiles(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x", "victim/sub/", "ws/dir/", "ws/link => ../victim/file", "ws/dirlink => ../victim", "ws/magic => /proc/self/fd/5", "ws/exe => /proc/self/exe",
		"ws/loop => loop", "ws/dangling => ../victim/new", "ws/null => /dev/null", "ws/file: y")
	ws, victim := filepath.Join(dir, "ws"), filepath.Join(dir, "victim")
	if err := os.Chmod(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	names := []string{"link", "dirlink", "magic", "exe", "loop", "dangling", "null", "dir", "fifo", "socket", "dirlink/file", "dirlink/new", "magic/new"}
	if err := unix.Mkfifo(filepath.Join(ws, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(ws, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if testenv.Root() {
		// Which nobody else could make; a bind keeps it from being one.
		names = append(names, "device")
		if err := unix.Mknod(filepath.Join(ws, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))); err != nil {
			t.Fatal(err)
		}
	}
	before := testenv.Listing(t, victim)
	outside, err := os.Open(victim)
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	for _, name := range names {
		at := filepath.Join(ws, name)
		for _, op := range [][]string{
			{"--file", "3", at}, {"--perms", "0600", "--file", "3", at}, {"--chmod", "0777", at}, {"--symlink", "text", at}, {"--lock-file", at}, {"--bind-data", "3", at}, {"--ro-bind-data", "3", at},
			{"--remount-ro", at}, {"--dir", at}, {"--bind", at, "/mnt"}, {"--tmpfs", "/mnt", "--bind-fd", "5", "/mnt/d", "--tmpfs", "/mnt/d/sub"}, {"--tmpfs", at + "/../dir"},
		} {
			// The host's root is read-only, and another one does not hold the victim.
			root := []string{"--ro-bind", "/", "/"}
			if len(name)%2 == 1 {
				root = []string{"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--dir", "/mnt"}
			}
			if slices.Contains(op, "5") {
				root = append(slices.Clone(root), "--tmpfs", "/tmp")
			}
			c := command(slices.Concat(root, []string{"--bind", ws, ws}, op, []string{"true"})...)
			c.ExtraFiles = []*os.File{data(t), nil, outside}
			kill := time.AfterFunc(20*time.Second, func() {
				t.Errorf("%s, %q hangs", name, op)
				if c.Process != nil {
					_ = c.Process.Kill()
				}
			})
			got := runs(t, bin, "bwrap", c)
			kill.Stop()
			if d := testenv.Difference(t, victim, before); d != "" {
				t.Fatalf("%q changed the host: %s; status %d\n%s", op, d, got.status, got.out)
			}
			if got.status != 0 && (got.status != 1 || !strings.HasPrefix(got.out, "bwrap: ")) {
				t.Errorf("%q: status %d\n%s", op, got.status, got.out)
			}
			// What a link leads to is for no file, no mode, no mount.
			leaf := !strings.Contains(name, "/")
			if fi, err := os.Lstat(at); leaf && err == nil && fi.Mode()&os.ModeSymlink != 0 {
				switch op[0] {
				case "--file", "--perms", "--chmod", "--symlink", "--bind-data", "--ro-bind-data":
					if got.status != 1 {
						t.Errorf("%q: status %d, and a link is there", op, got.status)
					}
				}
			}
		}
	}
	// Control: who opens by name writes to the victim.
	if err := os.WriteFile(filepath.Join(ws, "link"), []byte("data"), 0o644); err != nil || testenv.Difference(t, victim, before) == "" {
		t.Errorf("the control: %v", err)
	}
}
