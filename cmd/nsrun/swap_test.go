//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Races on the command line: the owner of a directory exchanges names in it while
// nsrun starts.

// raceRuns runs commands until each of the wanted outcomes was seen, and at least so
// many, with NSRUN_LONG five times as many. outcome says what came of a run.
func raceRuns(t *testing.T, runs int, outcome func(i int) string, want ...string) {
	t.Helper()
	if testenv.Long() {
		runs *= 5
	}
	end := time.Now().Add(testenv.RaceTime)
	seen := make(map[string]int)
	missing := func() bool {
		return slices.ContainsFunc(want, func(w string) bool { return seen[w] == 0 })
	}
	for i := 0; i < runs || missing() && time.Now().Before(end); i++ {
		seen[outcome(i)]++
	}
	t.Log(seen)
	if missing() {
		t.Errorf("not all of %q were seen: the exchange never hit the right moment", want)
	}
}

// TestSwappedDestination: below a destination a directory is exchanged with a link to
// where the set-up keeps the host's root, or to the victim itself (CVE-2026-87766
// again, bubblewrap#755).
func TestSwappedDestination(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x", "src/file: y")
	ws, victim, src := filepath.Join(dir, "ws"), filepath.Join(dir, "victim"), filepath.Join(dir, "src")
	if err := os.Chmod(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	testenv.Unchanged(t, src)
	before := testenv.Listing(t, victim)
	var pairs []testenv.Pair
	for i, text := range []string{"/oldroot" + victim, victim, "../../victim", "/proc/self/root" + victim, "/h" + victim} {
		d := filepath.Join(ws, fmt.Sprint(i))
		testenv.Tree(t, d, "target/")
		relink(t, text, filepath.Join(d, "other"))
		pairs = append(pairs, testenv.Pair{A: filepath.Join(d, "target"), B: filepath.Join(d, "other")})
	}
	testenv.Swap(t, pairs...)
	raceRuns(t, 105, func(i int) string {
		p := pairs[i%len(pairs)]
		ops := creators(src, fmt.Sprint(p.A, "/new", i))
		if i%2 == 1 {
			ops = creators(src, p.A)
		}
		op := ops[i/2%len(ops)]
		f, err := os.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := command(slices.Concat([]string{"--ro-bind", "/", "/", "--bind", ws, ws}, op, []string{"true"})...)
		c.ExtraFiles = []*os.File{data(t), f}
		got := runs(t, bin, "bwrap", c)
		if d := testenv.Difference(t, victim, before); d != "" {
			t.Fatalf("%q changed the host: %s; status %d\n%s", op, d, got.status, got.out)
		}
		switch {
		case got.status == 0:
			return "started"
		case got.status == 1 && strings.HasPrefix(got.out, "bwrap: "):
			return "refused"
		}
		t.Errorf("%q: status %d\n%s", op, got.status, got.out)
		return "else"
	}, "started", "refused")
	made := filepath.Join(victim, "made")
	testenv.Fooled(t, func() bool { return isDir(pairs[1].A) }, func() bool {
		return os.MkdirAll(filepath.Join(pairs[1].A, "made"), 0o755) == nil && os.Remove(made) == nil
	})
	if old := oldBubblewrap(); old != "" {
		hits := 0
		for i := range 100 {
			runs(t, bin, old, command("--ro-bind", "/", "/", "--bind", ws, ws, "--tmpfs", fmt.Sprint(pairs[0].A, "/old", i), "true"))
		}
		entries, err := os.ReadDir(victim)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "old") {
				hits++
				if err := os.Remove(filepath.Join(victim, e.Name())); err != nil {
					t.Error(err)
				}
			}
		}
		t.Logf("bubblewrap 0.8.0 made %d of 100 directories on the host", hits)
		if hits == 0 {
			t.Error("this control found nothing")
		}
	}
}

// TestSwappedDescriptor: a bind by descriptor shows the file that was opened, whatever is at its path by then. A bind
// by path shows the file that is there (CVE-2024-42472 and CVE-2026-34078 were of callers who used the path).
func TestSwappedDescriptor(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "ws/app/persist/f: inside", "ws/app/other/f: inside two", "victim/f: victim", "ws/app/link => ../../victim")
	app, victim := filepath.Join(dir, "ws/app"), filepath.Join(dir, "victim")
	testenv.Unchanged(t, victim)
	// A directory with a link, and a directory with another one.
	p := testenv.Pair{A: filepath.Join(app, "persist"), B: filepath.Join(app, "link")}
	testenv.Swap(t, p)
	bind := func(i int) string {
		fd, err := unix.Open(p.A, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "it was a link"
		}
		f := os.NewFile(uintptr(fd), p.A)
		defer f.Close()
		option, change := "--bind-fd", "true"
		if i%2 == 1 {
			option, change = "--ro-bind-fd", "echo changed 2>/dev/null > /mnt/d/f"
		}
		c := command("--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", option, "3", "/mnt/d", "sh", "-c", change+"; cat /mnt/d/f; [ ! -e /proc/self/fd/3 ] || echo open")
		c.ExtraFiles = []*os.File{f}
		switch got := runs(t, bin, "bwrap", c); {
		case got.status == 0 && got.out == "inside", got.status == 1 && strings.HasPrefix(got.out, "bwrap: "):
			return got.out
		default:
			t.Errorf("%s: status %d\n%s", option, got.status, got.out)
			return "else"
		}
	}
	raceRuns(t, 30, bind, "inside", "it was a link")
	// Control: by its path.
	raceRuns(t, 4, func(int) string {
		if !isDir(p.A) {
			return "it was a link"
		}
		return runs(t, bin, "bwrap", command("--ro-bind", "/", "/", "--tmpfs", "/mnt", "--bind", p.A, "/mnt/d", "cat", "/mnt/d/f")).out
	}, "inside", "victim")
}

// TestSwappedRule: while nsrun starts, the path of a rule is exchanged with a link to the home directory. The command
// never sees the secrets there, and never writes there.
func TestSwappedRule(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/.ssh/id: key", "home/notes: public", "home/.local/state/nsrun/sessions/", "p/", "ws/out/notes: inside")
	if err := os.Chmod(filepath.Join(dir, "home/.local/state/nsrun"), 0o700); err != nil {
		t.Fatal(err)
	}
	home, out := filepath.Join(dir, "home"), filepath.Join(dir, "ws/out")
	p := testenv.Pair{A: out, B: filepath.Join(dir, "ws/link")}
	relink(t, "../home", p.B)
	testenv.Unchanged(t, filepath.Join(home, ".ssh"))
	testenv.Swap(t, p)
	raceRuns(t, 40, func(i int) string {
		rule := []string{"--ro", "--rw"}[i%2]
		c := command("run", "--direct", "-q", "--home", "none", rule, out, "sh", "-c", "cat "+out+"/.ssh/id "+home+"/.ssh/id "+out+"/notes "+home+"/notes 2>&-; rm -f "+out+"/.ssh/id "+home+"/.ssh/id 2>&-; ls -A "+out+"/.local/state/nsrun "+home+"/.local/state/nsrun 2>&- | grep sessions; true")
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		got := runs(t, bin, "nsrun", c)
		if strings.Contains(got.out, "key") || strings.Contains(got.out, "sessions\n") && !strings.HasPrefix(got.out, "nsrun: ") {
			t.Fatalf("start %d, %s: status %d\n%s", i, rule, got.status, got.out)
		}
		switch {
		case got.status == 0:
			return got.out
		case got.status == 125 && strings.HasPrefix(got.out, "nsrun: "):
			return "refused"
		}
		t.Errorf("%s: status %d\n%s", rule, got.status, got.out)
		return "else"
	}, "inside", "refused")
	testenv.Fooled(t, func() bool { return isDir(out) }, func() bool {
		b, err := os.ReadFile(filepath.Join(out, ".ssh/id"))
		return err == nil && string(b) == "key"
	})
}

// TestSwappedDevice: a name in the caller's /dev is exchanged: the device, and a link
// to a file. The sandbox gets the device, or does not start (CVE-2025-31133,
// CVE-2025-52565 of runc).
func TestSwappedDevice(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x", "dev/null", "p/", "home/")
	dev, victim := filepath.Join(dir, "dev"), filepath.Join(dir, "victim")
	testenv.Unchanged(t, victim)
	relink(t, filepath.Join(victim, "file"), filepath.Join(dev, "link"))
	args := []string{"--bind", "/", "/", "--bind", dev, "/dev"}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		args = append(args, "--dev-bind", "/dev/"+name, "/dev/"+name)
	}
	// One outer sandbox has the mounts; somebody outside of it exchanges the names.
	script := `echo ready; read x; for i in $(seq 20); do
for how in "--bind / / --dev /dev --unshare-all" "run --direct"; do
nsrun $how sh -c 'echo overwritten > /dev/null; [ -c /dev/null ] && echo device || echo none' 2>&1 || echo refused; done; done`
	c := exec.Command(filepath.Join(bin, "bwrap"), append(args, "sh", "-c", script)...)
	c.Dir = filepath.Join(dir, "p")
	c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GORACE=atexit_sleep_ms=0"}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("it says %q", lines.Text())
	}
	testenv.Swap(t, testenv.Pair{A: filepath.Join(dev, "null"), B: filepath.Join(dev, "link")})
	_ = in.Close()
	seen := make(map[string]int)
	for lines.Scan() {
		seen[lines.Text()]++
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	t.Log(seen)
	if seen["none"] > 0 || seen["device"] == 0 || seen["refused"] == 0 {
		t.Errorf("what was at /dev/null: %v", seen)
	}
}

// TestSwappedState: the directory for sessions lies in one that all can write to, and
// somebody else exchanges what is there: a link of his to a directory of the caller's,
// and a directory. No session is kept where the link leads.
func TestSwappedState(t *testing.T) {
	testenv.NeedRoot(t) // to be somebody else
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/file: x", "home/", "victim/nsrun/sessions/", "shared/nsrun/sessions/")
	shared, victim := filepath.Join(dir, "shared"), filepath.Join(dir, "victim")
	for _, d := range []string{"shared/nsrun", "shared/nsrun/sessions", "victim/nsrun", "victim/nsrun/sessions"} {
		if err := os.Chmod(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := testenv.Pair{A: filepath.Join(shared, "nsrun"), B: filepath.Join(shared, "link")}
	relink(t, "../victim/nsrun", p.B)
	if err := errors.Join(os.Chmod(shared, 0o777|os.ModeSticky), os.Lchown(p.B, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	testenv.Unchanged(t, victim)
	testenv.Unchanged(t, filepath.Join(dir, "p"))
	run := func() ran {
		c := command("run", "-q", "--keep", "sh", "-c", "echo changed > file")
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + shared}
		return runs(t, bin, "nsrun", c)
	}
	testenv.Swap(t, p)
	raceRuns(t, 20, func(i int) string {
		switch got := run(); {
		case got.status == 0 && (got.out == "" || strings.HasPrefix(got.out, "nsrun: registry: ")): // refused by that alone
			return "kept"
		case got.status == 125 && strings.HasPrefix(got.out, "nsrun: "):
			return "refused"
		default:
			t.Errorf("status %d\n%s", got.status, got.out)
			return "else"
		}
	}, "kept", "refused")
	made := filepath.Join(victim, "nsrun/made")
	testenv.Fooled(t, func() bool { return isDir(p.A) }, func() bool {
		return os.Mkdir(filepath.Join(p.A, "made"), 0o700) == nil && os.Remove(made) == nil
	})
}
