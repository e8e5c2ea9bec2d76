//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSpecialFiles: an option that opens a file in a writable bind may find a link, a FIFO, a socket, a device or a
// directory there. It changes nothing outside, and does not wait.
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
	for n, name := range names {
		at := filepath.Join(ws, name)
		for k, op := range [][]string{
			{"--file", "3", at}, {"--perms", "0600", "--file", "3", at}, {"--chmod", "0777", at}, {"--symlink", "text", at}, {"--lock-file", at}, {"--bind-data", "3", at}, {"--ro-bind-data", "3", at},
			{"--remount-ro", at}, {"--dir", at}, {"--bind", at, "/mnt"}, {"--tmpfs", "/mnt", "--bind-fd", "5", "/mnt/d", "--tmpfs", "/mnt/d/sub"}, {"--tmpfs", at + "/../dir"},
		} {
			if name != "device" && !testenv.Turn(n+k) {
				continue
			}
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
			kill := time.AfterFunc(patience, func() {
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

// TestHostileTerminal: the name of the caller's terminal leads to another file, which
// is not to become the console (CVE-2025-52565 of runc).
func TestHostileTerminal(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x")
	victim := filepath.Join(dir, "victim")
	before := testenv.Listing(t, victim)
	const script = "echo overwritten > /dev/console; stat -c 'the console is a %F' /dev/console; echo end"
	inner := []string{"nsrun", "--unshare-all", "--bind", "/", "/", "--dev", "/dev", "sh", "-c", script}
	at := func(hostile string) string {
		term := testenv.NewTerminal(t)
		name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", term.Slave().Fd()))
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--bind", "/", "/", "--dev-bind", "/dev", "/dev"}
		switch hostile {
		case "link":
			args = append(args, "--tmpfs", "/dev/pts", "--symlink", filepath.Join(victim, "file"), name)
		case "link through a process":
			args = append(args, "--tmpfs", "/dev/pts", "--symlink", "/proc/self/root"+filepath.Join(victim, "file"), name)
		case "file":
			args = append(args, "--tmpfs", "/dev/pts", "--bind", filepath.Join(victim, "file"), name)
		case "nothing":
			args = append(args, "--tmpfs", "/dev/pts")
		}
		c := exec.Command(filepath.Join(bin, "bwrap"), append(args, inner...)...)
		c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
		term.Attach(c)
		if err := c.Run(); err != nil {
			t.Logf("%s: %v", hostile, err)
		} else {
			term.Await("end\r\n") // a terminal shows things when it gets around to it
		}
		return term.Screen()
	}
	for _, hostile := range []string{"link", "link through a process", "file", "nothing"} {
		if screen := at(hostile); strings.Contains(screen, "is a regular file") && testenv.Difference(t, victim, before) != "" {
			t.Errorf("%s: %s; the terminal shows\n%s", hostile, testenv.Difference(t, victim, before), screen)
		}
		if d := testenv.Difference(t, victim, before); d != "" {
			t.Errorf("%s: changed: %s", hostile, d)
		}
	}
	// Control: the terminal's own name becomes the console.
	if screen := at("control"); !strings.Contains(screen, "overwritten") || !strings.Contains(screen, "the console is a character special file") {
		t.Errorf("the control: the terminal shows\n%s", screen)
	}
}

// TestWritableBelow: mounts below a read-only root are read-only, and later mounts of the host do not appear. (Mounts
// below --bind keep their flags.)
func TestWritableBelow(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "m/", "late/", "p/", "home/", "out/")
	m, below, late := filepath.Join(dir, "m"), filepath.Join(dir, "m/below"), filepath.Join(dir, "late")
	mounted(t, "tmpfs", m, "tmpfs", 0)
	testenv.Tree(t, m, "below/")
	mounted(t, "tmpfs", below, "tmpfs", 0)
	attack := "for f in " + m + " " + below + "; do touch $f/x && echo written to $f; mount -o remount,bind,rw $f && touch $f/x && echo remounted $f; umount $f && echo unmounted $f; done 2>&-; " +
		"echo > " + dir + "/out/ready; while [ ! -e " + dir + "/out/go ]; do sleep 0.01; done; ls " + late + " 2>&-"
	for _, args := range [][]string{
		{"bwrap", "--unshare-user", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--bind", dir + "/out", dir + "/out"},
		{"bwrap", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--bind", dir + "/out", dir + "/out"},
		{"bwrap", "--unshare-all", "--cap-add", "ALL", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind", dir, dir, "--bind", dir + "/out", dir + "/out"},
		{"nsrun", "run", "--ro", dir, "--rw", dir + "/out"},
		{"nsrun", "run", "--direct", "--ro", dir, "--rw", dir + "/out"},
	} {
		for _, name := range []string{"ready", "go"} {
			_ = os.Remove(filepath.Join(dir, "out", name))
		}
		c := exec.Command(filepath.Join(bin, args[0]), append(args[1:], "sh", "-c", attack)...)
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GORACE=atexit_sleep_ms=0"}
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the command runs", func() bool {
			_, err := os.Lstat(dir + "/out/ready")
			return err == nil
		})
		t.Run("later", func(t *testing.T) {
			mounted(t, "tmpfs", late, "tmpfs", 0)
			testenv.Tree(t, dir, "late/seen", "out/go")
			_ = c.Wait()
		})
		got := out.String()
		if slices.Contains(args, "--cap-add") {
			// Who may mount may take back what another one mounted read-only in the same
			// user namespace: that is said, and asked for.
			got = strings.ReplaceAll(got, "remounted", "")
		}
		if strings.Contains(got, "written") || strings.Contains(got, "remounted") || strings.Contains(got, "unmounted") || strings.Contains(got, "seen") || strings.Contains(got, "bwrap:") {
			t.Errorf("%q: %s", args, out.String())
		}
	}
	// Control: outside it can be written to, and a namespace with the host's mounts
	// sees what is mounted later.
	testenv.Tree(t, dir, "m/below/x")
	c := exec.Command("sh", "-c", "echo; read x; ls "+late)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	t.Run("control", func(t *testing.T) {
		mounted(t, "tmpfs", late, "tmpfs", 0)
		testenv.Tree(t, dir, "late/seen")
		_ = in.Close()
		rest, _ := r.ReadString(0)
		if err := c.Wait(); err != nil || rest != "seen\n" {
			t.Errorf("the control sees %q, %v", rest, err)
		}
	})
}

// TestPlantedState: the directory for sessions lies where others can write, and they
// were there first: with a link, with a directory of theirs, with one open to all.
func TestPlantedState(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/file: x", "home/", "victim/nsrun/sessions/keep: x", "shared/")
	victim, shared, p := filepath.Join(dir, "victim"), filepath.Join(dir, "shared"), filepath.Join(dir, "p")
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(victim, "nsrun"), 0o777); err != nil {
		t.Fatal(err)
	}
	run := func(state string) ran {
		c := command("run", "sh", "-c", "echo changed > file")
		c.Dir = p
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + state}
		return runs(t, bin, "nsrun", c)
	}
	before, project := testenv.Listing(t, victim), testenv.Listing(t, p)
	for _, plant := range []func() error{
		func() error { return os.Symlink(filepath.Join(victim, "nsrun"), filepath.Join(shared, "nsrun")) },
		func() error { return os.Symlink("../victim/nsrun", filepath.Join(shared, "nsrun")) },
		func() error { return os.Mkdir(filepath.Join(shared, "nsrun"), 0o777) },
		func() error { return os.WriteFile(filepath.Join(shared, "nsrun"), nil, 0o666) },
		func() error { return unix.Mkfifo(filepath.Join(shared, "nsrun"), 0o666) },
		func() error {
			if err := os.Mkdir(filepath.Join(shared, "nsrun"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(victim, "nsrun/sessions"), filepath.Join(shared, "nsrun/sessions"))
		},
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(shared, "nsrun"), 0o777) // against the umask; of a link its target, which has it
		got := run(shared)
		if d := testenv.Difference(t, victim, before) + testenv.Difference(t, p, project); d != "" {
			t.Errorf("changed: %s; status %d\n%s", d, got.status, got.out)
		}
		if got.status != 125 || !strings.HasPrefix(got.out, "nsrun: ") {
			t.Errorf("status %d\n%s", got.status, got.out)
		}
		if err := os.RemoveAll(filepath.Join(shared, "nsrun")); err != nil {
			t.Fatal(err)
		}
	}
	// Control: with nothing planted it is made and used.
	if got := run(shared); got.status != 0 || !strings.Contains(got.out, "kept 1 change") {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}
