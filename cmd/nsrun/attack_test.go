//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Attacks on the command line. What bwrap's options say, they give, so some attacks
// are no business of a drop-in run: then `nsrun run` is tried, which has to hold
// against all of them by default. Each has a control that shows that the attack
// works where nothing is done against it.

// ran is what came of a command.
type ran struct {
	status int
	out    string // of both
}

// runs runs one of the commands in bin, or a program with a path.
func runs(t testing.TB, bin, name string, c *exec.Cmd) ran {
	t.Helper()
	if !strings.Contains(name, "/") {
		name = filepath.Join(bin, name)
	}
	c.Path, c.Args[0], c.Err = name, name, nil
	if c.Env == nil {
		c.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	c.Env = append(c.Env, "GORACE=atexit_sleep_ms=0") // else a second for each process
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{c.ProcessState.ExitCode(), string(out)}
}

// command is an exec.Cmd whose program runs finds.
func command(args ...string) *exec.Cmd { return exec.Command("/", args...) }

// relink makes a symbolic link, in place of one that is there.
func relink(t testing.TB, text, name string) {
	t.Helper()
	_ = os.Remove(name)
	if err := os.Symlink(text, name); err != nil {
		t.Fatal(err)
	}
}

// data is an open file with some text, for options that take a descriptor.
func data(t testing.TB) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, err := w.WriteString("data"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return r
}

// oldBubblewrap is the path of a bubblewrap that is known to follow links to the host's files while it sets up a
// sandbox, or "" if there is none.
func oldBubblewrap() string {
	out, _ := exec.Command("/usr/bin/bwrap", "--version").Output()
	if strings.TrimSpace(string(out)) == "bubblewrap 0.8.0" {
		return "/usr/bin/bwrap"
	}
	return ""
}

// creators are the options that make something at a destination, and those that
// change what is there. Descriptor 3 has data.
func creators(source, dest string) [][]string {
	dir, file := source, filepath.Join(source, "file")
	return [][]string{
		{"--tmpfs", dest}, {"--dir", dest}, {"--perms", "0777", "--dir", dest}, {"--bind", dir, dest}, {"--ro-bind", dir, dest}, {"--dev-bind", dir, dest},
		{"--bind", file, dest}, {"--bind-fd", "4", dest}, {"--ro-bind-fd", "4", dest},
		{"--proc", dest}, {"--dev", dest}, {"--mqueue", dest}, {"--file", "3", dest}, {"--bind-data", "3", dest}, {"--ro-bind-data", "3", dest},
		{"--symlink", "text", dest}, {"--chmod", "0777", dest}, {"--remount-ro", dest},
		{"--overlay-src", dir, "--tmp-overlay", dest}, {"--overlay-src", dir, "--overlay-src", "/usr", "--ro-overlay", dest},
		{"--tmpfs", "/mnt", "--lock-file", dest},
	}
}

// TestOldrootLink: a link in a writable bind that leads to where the set-up keeps the
// host's root, or out of the sandbox in other ways, makes no option create or change
// anything on the host (CVE-2026-87766, GHSA-pxhw-h44j-8pfx).
func TestOldrootLink(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "ws/", "victim/file: x", "victim/sub/", "src/file: y")
	ws, victim, src := filepath.Join(dir, "ws"), filepath.Join(dir, "victim"), filepath.Join(dir, "src")
	for _, d := range []string{victim, victim + "/sub", victim + "/file"} {
		if err := os.Chmod(d, 0o700|os.FileMode(0o77)); err != nil { // permissions refuse nothing
			t.Fatal(err)
		}
	}
	before, beforeSrc := testenv.Listing(t, victim), testenv.Listing(t, src)
	up := strings.Repeat("../", 20)
	link := filepath.Join(ws, "link")
	attempt := func(bwrap string, root, op []string) ran {
		f, err := os.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := command(slices.Concat(root, []string{"--bind", ws, ws}, op, []string{"true"})...)
		c.ExtraFiles = []*os.File{data(t), f}
		return runs(t, bin, bwrap, c)
	}
	// Read-only, so that what links in the sandbox's own root lead to is no way.
	host := []string{"--ro-bind", "/", "/"}
	empty := []string{"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--tmpfs", "/tmp"}
	n, attempts := 0, 0
	for _, text := range []string{
		"/oldroot" + victim, up + "oldroot" + victim, "/newroot/../oldroot" + victim, "/newroot" + victim, "/h" + victim, "/../h" + victim, up + "h" + victim, "/r/../h" + victim,
		"/proc/self/root" + victim, "/proc/1/root" + victim, "/proc/self/cwd" + victim, "/proc/thread-self/root/oldroot" + victim, "/proc/self/fd/3/.." + victim, "../victim", victim,
	} {
		relink(t, text, link)
		for _, dest := range []string{link + "/new", link + "/a/b/new", link + "/sub", link + "/file", link} {
			for i, op := range creators(src, dest) {
				if n++; dest != link+"/new" && n%5 != 0 || text != "/oldroot"+victim && n%2 != 0 {
					continue // of the rest a part is enough
				}
				if attempts++; !testenv.Turn(attempts) {
					continue
				}
				name, root := "bwrap", host
				if i%2 == 1 {
					name, root = "nsrun", empty
				}
				got := attempt(name, root, op)
				if d := testenv.Difference(t, victim, before) + testenv.Difference(t, src, beforeSrc); d != "" {
					t.Fatalf("%s, link to %s, %q changed the host: %s; status %d\n%s", name, text, op, d, got.status, got.out)
				}
				if got.status != 0 && !strings.HasPrefix(got.out, name+": ") {
					t.Errorf("%s, link to %s, %q: status %d\n%s", name, text, op, got.status, got.out)
				}
			}
		}
	}
	// Control: the set-up as it is done by who follows links, with the host's root at
	// /oldroot and the new one at /newroot.
	relink(t, "/oldroot"+victim, link)
	got := runs(t, bin, "bwrap", command("--bind", "/", "/oldroot", "--bind", ws, "/newroot"+ws, "--symlink", "oldroot/usr", "/usr",
		"--symlink", "oldroot/lib", "/lib", "--symlink", "oldroot/lib64", "/lib64", "--symlink", "oldroot/bin", "/bin", "mkdir", "-p", "/newroot"+link+"/new"))
	if got.status != 0 || testenv.Difference(t, victim, before) == "" {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
	if err := os.Remove(filepath.Join(victim, "new")); err != nil {
		t.Error(err)
	}
	if old := oldBubblewrap(); old != "" {
		got := attempt(old, host, []string{"--tmpfs", link + "/new"})
		t.Logf("%s: status %d, on the host: %s", old, got.status, testenv.Difference(t, victim, before))
	}
}

// TestImageLinks: an image, which is the attacker's, has links where the caller wants
// mounts: /dev, /proc, /tmp, files in /etc. They are refused, or lead to places in the
// image (CVE-2026-41579 and CVE-2025-52565 of runc, CVE-2026-47766 of crun,
// bubblewrap#390).
func TestImageLinks(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x", "victim/pts/", "victim/self/", "src/file: y")
	victim, src := filepath.Join(dir, "victim"), filepath.Join(dir, "src")
	before := testenv.Listing(t, victim)
	usr := func(image string) []string {
		return []string{"--bind", image, "/", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"}
	}
	n := 0
	for _, text := range []string{victim, "../../victim", strings.Repeat("../", 20) + victim, "/oldroot" + victim, "/proc/self/root" + victim, "/proc/1/cwd"} {
		for _, op := range [][]string{
			{"--dev", "/dev"}, {"--proc", "/proc"}, {"--tmpfs", "/tmp"}, {"--dir", "/tmp/a"}, {"--bind", src, "/tmp/src"}, {"--bind", src, "/tmp"}, {"--ro-bind-data", "3", "/etc/resolv.conf"},
			{"--file", "3", "/etc/file"}, {"--symlink", "x", "/etc/link"}, {"--chmod", "0777", "/tmp"}, {"--dev", "/dev", "--tmpfs", "/dev/shm"}, {"--dev-bind", "/dev/null", "/dev/null"},
			{"--dev-bind", "/dev/null", "/tmp/file"}, {"--file", "3", "/tmp/file"}, {"--mqueue", "/dev/mqueue"},
		} {
			n++
			image := filepath.Join(dir, fmt.Sprint("image", n))
			testenv.Tree(t, image, "usr/", "x")
			for _, name := range []string{"dev", "proc", "tmp", "etc"} {
				relink(t, text, filepath.Join(image, name))
			}
			f := data(t)
			c := command(slices.Concat(usr(image), op, []string{"true"})...)
			c.ExtraFiles = []*os.File{f}
			got := runs(t, bin, "bwrap", c)
			if d := testenv.Difference(t, victim, before); d != "" {
				t.Fatalf("links to %s, %q changed the host: %s; status %d\n%s", text, op, d, got.status, got.out)
			}
			if leaf := !strings.Contains(op[len(op)-1][1:], "/") && op[0] != "--dir"; leaf && (got.status != 1 || !strings.HasPrefix(got.out, "bwrap: ")) {
				t.Errorf("links to %s, %q: status %d\n%s", text, op, got.status, got.out)
			}
		}
	}
	// Control: what follows the links from outside changes the host.
	image := filepath.Join(dir, "image1")
	relink(t, "../victim", filepath.Join(image, "dev"))
	if err := os.WriteFile(filepath.Join(image, "dev/null"), nil, 0o644); err != nil || testenv.Difference(t, victim, before) == "" {
		t.Errorf("the control: %v", err)
	}
}

// TestHostileDev: the caller's own /dev is the attacker's: instead of devices it has links, files and FIFOs. The
// sandbox gets none of them as a device, and their targets stay as they are (CVE-2025-31133 and CVE-2025-52565 of
// runc).
func TestHostileDev(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x", "secret: s", "p/", "home/", "src/fake: fake")
	victim, file := filepath.Join(dir, "victim"), filepath.Join(dir, "victim/file")
	before := testenv.Listing(t, victim)
	// What somebody who may set up mounts does first: a /dev of his own.
	outer := func(hostile string, inner ...string) ran {
		args := []string{"--bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/other"}
		switch hostile {
		case "link":
			args = []string{"--bind", "/", "/", "--tmpfs", "/dev", "--symlink", file, "/dev/null"}
		case "link to procfs":
			args = []string{"--bind", "/", "/", "--tmpfs", "/dev", "--symlink", "/proc/sys/kernel/hostname", "/dev/null"}
		case "file":
			args = []string{"--bind", "/", "/", "--tmpfs", "/dev", "--bind", file, "/dev/null"}
		case "dir":
			args = []string{"--bind", "/", "/", "--tmpfs", "/dev", "--bind", victim, "/dev/null"}
		case "other device":
			args = []string{"--bind", "/", "/", "--tmpfs", "/dev", "--dev-bind", "/dev/full", "/dev/null"}
		}
		if hostile != "control" {
			for _, name := range []string{"zero", "full", "random", "urandom", "tty"} {
				args = append(args, "--dev-bind", "/dev/"+name, "/dev/"+name)
			}
		}
		c := command(append(args, inner...)...)
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		// The test's own standard files are no way out of it.
		c.Stdin, _ = os.Open(filepath.Join(dir, "secret"))
		defer c.Stdin.(*os.File).Close()
		return runs(t, bin, "bwrap", c)
	}
	const write = "echo overwritten > /dev/null; test -c /dev/null && echo device; stat -Lc %t:%T /dev/null"
	for _, hostile := range []string{"control", "link", "link to procfs", "file", "dir", "other device"} {
		for _, inner := range [][]string{
			{"nsrun", "--ro-bind", "/", "/", "--dev", "/dev", "sh", "-c", write},
			{"nsrun", "--unshare-all", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "sh", "-c", write},
			{"nsrun", "run", "--ro", victim, "--block", file, "sh", "-c", "! cat " + file + " 2>&- && " + write},
			{"nsrun", "run", "--direct", "sh", "-c", write},
		} {
			got := outer(hostile, inner...)
			if d := testenv.Difference(t, victim, before); d != "" {
				t.Errorf("%s, %q: changed: %s; status %d\n%s", hostile, inner, d, got.status, got.out)
				testenv.Tree(t, dir, "victim/file: x")
			}
			// Right, or refused.
			if got.out == "device\n1:3\n" && got.status == 0 {
				if hostile != "control" {
					t.Errorf("%s, %q: the device is unexpected", hostile, inner)
				}
			} else if hostile == "control" || got.status != 1 && got.status != 125 || strings.Contains(got.out, "0:0") {
				t.Errorf("%s, %q: status %d\n%s", hostile, inner, got.status, got.out)
			}
		}
	}
	// Control: without a /dev of the sandbox's own, what is there is used.
	if got := outer("link", "nsrun", "--bind", "/", "/", "sh", "-c", "echo overwritten > /dev/null"); testenv.Difference(t, victim, before) == "" {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}

// TestHostileProc: the caller's own /proc is the attacker's, with files that look
// like those that the set-up writes to (CVE-2025-52881 and CVE-2019-19921 of runc).
// Nothing that was asked for is silently not done.
func TestHostileProc(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "home/", "proc/self/uid_map", "proc/self/gid_map", "proc/self/setgroups", "proc/self/ns/user", "proc/self/fd/", "proc/self/attr/exec", "proc/self/attr/current",
		"proc/sys/user/max_user_namespaces: 100\n", "proc/sys/kernel/overflowuid: 1\n", "proc/self/mountinfo: 1 0 0:1 / / rw - tmpfs none rw\n", "proc/self/status", "proc/thread-self => self", "proc/filesystems", "proc/mounts => self/mounts")
	fake := filepath.Join(dir, "proc")
	for _, name := range []string{"0", "1", "2", "100", "101", "64", "65", "66", "67", "68"} {
		relink(t, "../../../p", filepath.Join(fake, "self/fd", name))
	}
	ids := fmt.Sprintf("%d %d\n", os.Getuid(), os.Getgid())
	const nested = "echo $(id -u) $(id -g); unshare -U true 2>&- && echo more || echo none"
	const status = "grep -E '^(NoNewPrivs|CapEff)' /proc/self/status | tr -d '\n\t'"
	for _, c := range []struct {
		inner []string
		want  string
	}{
		{[]string{"nsrun", "--unshare-user", "--uid", "5", "--gid", "6", "--ro-bind", "/", "/", "sh", "-c", "echo $(id -u) $(id -g)"}, "5 6\n"},
		{[]string{"nsrun", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "sh", "-c", "echo $(id -u) $(id -g)"}, ids},
		{[]string{"nsrun", "--unshare-user", "--disable-userns", "--bind", "/", "/", "sh", "-c", nested}, ids + "none\n"},
		{[]string{"nsrun", "--unshare-user", "--disable-userns", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "sh", "-c", nested}, ids + "none\n"},
		// The sandbox's own /proc is the attacker's, too.
		{[]string{"nsrun", "--unshare-user", "--disable-userns", "--bind", "/", "/", "--bind", fake, "/proc", "sh", "-c", nested}, ids + "none\n"},
		{[]string{"nsrun", "--unshare-user", "--assert-userns-disabled", "--disable-userns", "--bind", "/", "/", "--bind", fake, "/proc", "sh", "-c", nested}, ids + "none\n"},
		{[]string{"nsrun", "--unshare-user", "--uid", "7", "--gid", "8", "--bind", "/", "/", "--bind", fake, "/proc", "--dev", "/dev", "sh", "-c", "echo $(id -u) $(id -g)"}, "7 8\n"},
		{[]string{"nsrun", "run", "--direct", "sh", "-c", "touch x; rm x; echo $(id -u) $(id -g)"}, ids},
		{[]string{"nsrun", "run", "--direct", "sh", "-c", status}, "CapEff:0000000000000000NoNewPrivs:1"},
		{[]string{"nsrun", "run", "sh", "-c", "echo $(id -u) $(id -g)"}, ids},
	} {
		for _, hostile := range []bool{false, true} {
			args := []string{"--bind", "/", "/", "--dev", "/dev"}
			if hostile {
				args = append(args, "--bind", fake, "/proc")
			}
			cmd := command(append(args, c.inner...)...)
			cmd.Dir = filepath.Join(dir, "p")
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
			got := runs(t, bin, "bwrap", cmd)
			// As it was asked for, or refused with one of nsrun's own messages.
			// (The race detector complains first, that it cannot see its own program.)
			refused := got.status != 0 && (strings.Contains("\n"+got.out, "\nbwrap: ") || strings.Contains("\n"+got.out, "\nnsrun: "))
			if got.out != c.want && !(refused && (hostile || slices.Contains(c.inner, fake))) {
				t.Errorf("hostile %v, %q: status %d\n%s\nwant %q", hostile, c.inner, got.status, got.out, c.want)
			}
			if refused {
				t.Logf("hostile %v, %q: %s", hostile, c.inner[:4], got.out)
			}
		}
	}
	// Control: a program that trusts a path writes to the attacker's file.
	trusting := "unshare -U sh -c 'echo 5 " + fmt.Sprint(os.Getuid()) + " 1 > /proc/self/uid_map; id -u'"
	cmd := command("--bind", "/", "/", "--dev", "/dev", "--bind", fake, "/proc", "sh", "-c", trusting)
	if got := runs(t, bin, "bwrap", cmd); got.out != "65534\n" {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}
