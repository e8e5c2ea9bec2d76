//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// nest makes directories in each other, whose path no system call takes, with a file in
// the last one.
func nest(t *testing.T, dir, name string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	for range depth {
		if err != nil {
			break
		}
		up := at
		if err = unix.Mkdirat(up, name, 0o700); err == nil {
			at, err = unix.Openat(up, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		unix.Close(up)
	}
	if err == nil {
		var fd int
		fd, err = unix.Openat(at, "last", unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		unix.Close(fd)
		unix.Close(at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// quick is a directory on a tmpfs, if there is one: tens of thousands of directories take
// long on disks.
func quick(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "nsrun-test-")
	if err != nil {
		return testenv.Dir(t)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("rm", "-rf", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %.500s", err, out)
		}
	})
	return dir
}

// TestDeepPlayground: however deep a command nests directories, the playground is measured
// and emptied, with few descriptors, and memory that does not grow with the paths' lengths.
func TestDeepPlayground(t *testing.T) {
	const depth = 20_000
	dir := quick(t)
	testenv.Tree(t, dir, "closed/f: x", "plain: x")
	nest(t, dir, "d", depth)
	nest(t, dir, strings.Repeat("n", 255), 200)
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	few(t, 256)
	const most = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := nsrun.MeasurePlayground(dir)
	if os.Geteuid() == 0 && (err != nil || u.Files != 4) || os.Geteuid() != 0 && (!errors.Is(err, os.ErrPermission) || u.Files != 3) {
		t.Errorf("measured %d files, %v", u.Files, err)
	}
	if err != nil && len(err.Error()) > len(dir)+100 {
		t.Errorf("long error: %v", err)
	}
	u, err = nsrun.CleanPlayground(dir)
	if err != nil || u.Files != 4 {
		t.Errorf("removed %d files, %.500v", u.Files, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%d MiB were allocated", n>>20)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// few leaves this process few descriptors until the test ends.
func few(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = min(n, old.Cur)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
}

// TestPlaygroundStays: what cannot be removed is reported with a short path, however deep it is, and everything else is
// removed.
func TestPlaygroundStays(t *testing.T) {
	testenv.NeedRoot(t)
	dir := filepath.Join(place(t), "play")
	testenv.Tree(t, dir, "a/f: x", "z/f: x")
	where := filepath.Join(dir, strings.Repeat("deep/", 300))
	testenv.Tree(t, where, "mounted/", "f: x")
	mounted := filepath.Join(where, "mounted")
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	held, err := unix.Open(mounted, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		// The way there may be another one by now.
		if err := unix.Fchdir(held); err != nil {
			t.Error(err)
		}
		unix.Close(held)
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	t.Chdir(dir)
	testenv.Tree(t, mounted, "kept: x")
	for name, do := range map[string]func(string) (nsrun.PlaygroundUsage, error){
		"measure": nsrun.MeasurePlayground, "clean": nsrun.CleanPlayground,
	} {
		if _, err := do(dir); err == nil || len(err.Error()) > len(dir)+100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if isThere(dir, "a") || isThere(dir, "z") {
		t.Error("a removable file is left")
	}
	var st unix.Stat_t
	if err := unix.Fstatat(held, "kept", &st, 0); err != nil {
		t.Errorf("on the mounted file system: %v", err)
	}
}

// TestPlaygroundsApart: commands reach what earlier commands of their own project left in the playground. They do not
// reach what commands of another project left there, whatever their rules are. When all playgrounds are emptied,
// nothing is left.
func TestPlaygroundsApart(t *testing.T) {
	dir := place(t)
	testenv.Tree(t, dir, "other/", "deep/p/", "link => p")
	at := func(name string) nsrun.Config { return nsrun.Config{Project: filepath.Join(dir, name)} }
	direct := at("p")
	direct.Mode = nsrun.Direct
	shared := at("other")
	shared.Playground = playgroundOf(t, filepath.Join(dir, "p"))
	secret := filepath.Join(playgroundOf(t, filepath.Join(dir, "p")), "left")
	look := "cat ~/playground/left " + secret + " ~/.local/share/nsrun/playground*/*/left 2>/dev/null; true"
	sh(t, runner(t, at("p")), "echo word >~/playground/left")
	if got := content(secret); got != "word\n" {
		t.Fatalf("on the host: %q", got)
	}
	for name, c := range map[string]struct {
		config nsrun.Config
		want   string
	}{
		"the same":                   {at("p"), "word\n"},
		"the same, direct":           {direct, "word\n"},
		"the same through a link":    {at("link"), "word\n"},
		"another that shares it":     {shared, "word\n"},
		"another":                    {at("other"), ""},
		"another with its name":      {at("deep/p"), ""},
		"one that it is in":          {at("deep"), ""},
		"none":                       {nsrun.Config{}, ""},
		"none, with a shared folder": {nsrun.Config{Shared: []nsrun.Folder{{Path: filepath.Join(dir, "p"), Mode: nsrun.ReadOnly}}}, ""},
	} {
		r := runner(t, c.config)
		if got := sh(t, r, look); got != c.want && (c.want != "" || strings.Contains(got, "word")) {
			t.Errorf("%s: %q", name, got)
		}
		if c.want == "" {
			sh(t, r, "echo other >~/playground/left")
		}
	}
	if got := content(secret); got != "word\n" {
		t.Errorf("afterwards: %q", got)
	}
	dirs, err := nsrun.Playgrounds()
	if err != nil || len(dirs) != 5 {
		t.Errorf("%q, %v", dirs, err)
	}
}
