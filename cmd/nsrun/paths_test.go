//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// What is hidden, or cannot be executed, is so by whatever name it is called. That is
// the business of nsrun run; bwrap's options hide nothing by themselves.

// TestSpelling: a path that is to be hidden can be spelled in many ways, and so can
// the attempt to read it.
func TestSpelling(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/.ssh/id: key", "home/.netrc: key", "p/src/secret/f: key", "p/src/Secret/f: other", "p/src/secre\u0301t/f: other", "p/src/secr\u00e9t/f: key",
		"p/link => src", "p/src/file: key", "p/src/back => ..", "p/.dot/f: key", "p/with space/f: key", "p/new\nline/f: key", "p/src/star*/f: key")
	p, home := filepath.Join(dir, "p"), filepath.Join(dir, "home")
	nsrun := func(args ...string) ran {
		c := command(append([]string{"run", "-q", "--ro", dir, "--block-existing"}, args...)...)
		c.Dir = p
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		return runs(t, bin, "nsrun", c)
	}
	// The ways in which the caller spells the hidden path.
	for i, s := range []struct{ block, file string }{
		{"src/secret", "src/secret/f"}, {"src/secret/", "src/secret/f"}, {"src/secret//", "src/secret/f"}, {"./src/./secret/.", "src/secret/f"}, {"src/../src/secret", "src/secret/f"},
		{"src/secret/../secret", "src/secret/f"}, {p + "/src//secret/", "src/secret/f"}, {"/../.." + p + "/src/secret", "src/secret/f"},
		{"../p/src/secret/", "src/secret/f"}, {"src/secr?t", "src/secret/f"}, {"s*/secret", "src/secret/f"}, {"src/secr\u00e9t", "src/secr\u00e9t/f"}, {"src/file", "src/file"}, {"src/./file", "src/file"},
		{".dot", ".dot/f"}, {".dot/", ".dot/f"}, {".d*", ".dot/f"}, {"with space", "with space/f"}, {"new\nline", "new\nline/f"}, {"src/star*", "src/star*/f"},
	} {
		if !testenv.Turn(i) {
			continue
		}
		if got := nsrun("--block", s.block, "--", "cat", s.file); got.status != 1 || !strings.Contains(got.out, "Permission denied") {
			t.Errorf("with --block %q, cat %q: status %d\n%s", s.block, s.file, got.status, got.out)
		}
		// A name that only looks alike is another file.
		if got := nsrun("--block", s.block, "--", "cat", "src/Secret/f", "src/secre\u0301t/f"); got.out != "otherother" && s.block != "src/secr?t" {
			t.Errorf("--block %q hides more: status %d\n%s", s.block, got.status, got.out)
		}
	}
	// A link in the project may be a command's own.
	for _, block := range []string{"link/secret", "src/back/src/secret", "link/file"} {
		if got := nsrun("--block", block, "--", "true"); got.status != 125 || !strings.Contains(got.out, " is a symbolic link to ") {
			t.Errorf("--block %q: status %d\n%s", block, got.status, got.out)
		}
	}
	// Through a process it is what that process sees: nsrun.
	if got := nsrun("--block", "/proc/self/cwd/src/secret", "--", "cat", "src/secret/f"); got.status != 1 || !strings.Contains(got.out, "Permission denied") {
		t.Errorf("status %d\n%s", got.status, got.out)
	}
	// How the command spells it.
	up := strings.Repeat("../", 20)
	var spellings []string
	for _, f := range []string{p + "/src/secret/f", home + "/.ssh/id", home + "/.netrc"} {
		d, b := filepath.Split(f)
		for _, s := range []string{f, d + "./" + b, d + "/" + b, d + "../" + filepath.Base(d) + "/" + b, up + f, "/proc/self/root" + f, "/proc/1/root" + f, "/proc/$$/root" + f, "/proc/self/task/$$/root" + f,
			"/proc/thread-self/root" + f, "/proc/self/cwd/" + up + f, "/proc/self/cwd/../../../.." + f, "/dev/fd/../root" + f, "/proc/self/root/proc/self/root" + f, "/proc/self/map_files/../root" + f, "/proc/self/fd/0/../.." + f,
			"src/back/../home/.ssh/" + b, "/tmp/l/" + b, "/tmp/hard"} {
			spellings = append(spellings, `"`+s+`"`)
		}
	}
	script := "ln -s " + home + "/.ssh /tmp/l; ln " + home + "/.netrc /tmp/hard 2>&-; ln " + p + "/src/secret/f hard 2>&-; mv src s 2>&-; mv src/secret src/s 2>&-; cp -r src /tmp/copy 2>&-; " +
		"tar -C / -cf /tmp/t ." + home + " 2>&-; cat hard s/secret/f src/s/f /tmp/copy/secret/f 2>&-; " +
		"for f in " + strings.Join(spellings, " ") + "; do cat $f 2>&- && echo \" by $f\"; done; " +
		"for f in /proc/[0-9]*/root" + home + "/.netrc /proc/[0-9]*/cwd/src/secret/f; do cat $f 2>&- && echo \" by $f\"; done; grep -c key /tmp/t; true"
	if got := nsrun("--discard", "-q", "--block", "src/secret", "--", "sh", "-c", script); strings.Contains(got.out, "key") || !strings.HasSuffix(got.out, "0\n") {
		t.Errorf("status %d\n%s", got.status, got.out)
	}
	// Control: where nothing is hidden most of that finds it.
	c := exec.Command("sh", "-c", "cd "+p+"; for f in "+strings.Join(spellings, " ")+"; do cat $f 2>&-; done")
	if out, _ := c.Output(); strings.Count(string(out), "key") < len(spellings)/2 {
		t.Errorf("the control found %d of %d: %s", strings.Count(string(out), "key"), len(spellings), out)
	}
}

// TestBlockedProgram: a program that is blocked is not executed: not by its name, not
// by the dynamic loader, not as a copy, a link, another name, or out of memory.
func TestBlockedProgram(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/bin/")
	prog, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	denied := filepath.Join(dir, "p/bin/denied")
	if err := os.WriteFile(denied, prog, 0o755); err != nil {
		t.Fatal(err)
	}
	loaders, err := filepath.Glob("/lib64/ld-linux*")
	if more, _ := filepath.Glob("/lib/ld-linux*"); err == nil {
		loaders = append(loaders, more...)
	}
	if len(loaders) == 0 {
		testenv.Skip(t, "loader", "there is no dynamic loader in /lib64 or /lib")
	}
	ways := []string{
		"./bin/denied ran", loaders[0] + " ./bin/denied ran", loaders[0] + " --argv0 x " + denied + " ran", "/proc/self/cwd/bin/denied ran", "/proc/self/root" + denied + " ran",
		"cp bin/denied /tmp/d && /tmp/d ran", "cp bin/denied d && ./d ran", "ln bin/denied d2 && ./d2 ran", "ln -s bin/denied d3 && ./d3 ran", "mv bin/denied d4 && ./d4 ran", "mv bin b && b/denied ran",
		"cat bin/denied > /tmp/e && chmod 755 /tmp/e && /tmp/e ran", "dd if=bin/denied of=/dev/shm/e && chmod 755 /dev/shm/e && /dev/shm/e ran", "sh -c '. ./bin/denied'", "env ./bin/denied ran", "exec ./bin/denied ran",
		"tar -cf - bin | tar -C /tmp -xf - && /tmp/bin/denied ran", "exec 9< bin/denied && " + loaders[0] + " /proc/self/fd/9 ran", "exec 9< bin/denied && /proc/self/fd/9 ran",
	}
	for i, way := range ways {
		if !testenv.Turn(i) {
			continue
		}
		nsrun := func(args ...string) ran {
			c := command(append(append([]string{"run", "-q", "--discard"}, args...), "sh", "-c", "exec 2>/dev/null; "+way)...)
			c.Dir = filepath.Join(dir, "p")
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
			return runs(t, bin, "nsrun", c)
		}
		if got := nsrun("--block", "bin/denied"); strings.Contains(got.out, "ran") {
			t.Errorf("%s: status %d\n%s", way, got.status, got.out)
		}
		// Control: it runs where it is not blocked.
		if got := nsrun(); got.out != "ran\n" && !strings.Contains(way, ". ./") {
			t.Errorf("the control, %s: status %d\n%s", way, got.status, got.out)
		}
	}
}

// TestNoExec: what is not to be executed on the host, because of its mount, is not to
// be executed inside either: not by the dynamic loader, not through a bind.
func TestNoExec(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "m/", "home/", "p/")
	prog, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	m := filepath.Join(dir, "m")
	const noexec, nosymfollow = 8, 256
	mounted(t, "tmpfs", m, "tmpfs", noexec|nosymfollow)
	file := filepath.Join(m, "prog")
	if err := os.WriteFile(file, prog, 0o755); err != nil {
		t.Fatal(err)
	}
	relink(t, "prog", filepath.Join(m, "link"))
	loader, _ := filepath.Glob("/lib64/ld-linux*")
	if len(loader) == 0 {
		loader, _ = filepath.Glob("/lib/ld-linux*")
	}
	script := func(at string) string {
		return fmt.Sprintf("cat %[1]s/prog >/dev/null && echo read; %[1]s/prog ran; %[2]s %[1]s/prog ran; cat %[1]s/link >/dev/null && echo followed; exec 9< %[1]s/prog; %[2]s /proc/self/fd/9 ran", at, loader[0])
	}
	for _, c := range [][]string{
		{"nsrun", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "sh", "-c", script(m)},
		{"nsrun", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", "--bind", m, "/mnt/m", "sh", "-c", script("/mnt/m")},
		{"nsrun", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", "--bind", dir, "/mnt/d", "--remount-ro", "/mnt/d/m", "sh", "-c", script("/mnt/d/m")},
		{"nsrun", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", "--dev-bind", m, "/mnt/m", "--remount-ro", "/mnt/m", "sh", "-c", script("/mnt/m")},
		{"nsrun", "run", "--rw", m, "sh", "-c", script(m)},
		{"nsrun", "run", "--ro", m, "sh", "-c", script(m)},
	} {
		cmd := command(c[1:]...)
		cmd.Dir = filepath.Join(dir, "p")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		if got := runs(t, bin, "nsrun", cmd); !strings.Contains(got.out, "read\n") || strings.Contains(got.out, "ran\n") || strings.Contains(got.out, "followed") {
			t.Errorf("%q: status %d\n%s", c, got.status, got.out)
		}
	}
	// Control: bubblewrap 0.8.0 loses what it does not know of, and a file on another
	// mount can be executed.
	if old := oldBubblewrap(); old != "" {
		got := runs(t, bin, old, command("--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", "--bind", m, "/mnt/m", "sh", "-c", script("/mnt/m")))
		t.Logf("bubblewrap 0.8.0 says %q", got.out)
	}
	other := filepath.Join(dir, "p")
	if err := os.WriteFile(filepath.Join(other, "prog"), prog, 0o755); err != nil {
		t.Fatal(err)
	}
	relink(t, "prog", filepath.Join(other, "link"))
	if got := runs(t, bin, "bwrap", command("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "sh", "-c", script(other))); got.out != "read\nran\nran\nfollowed\nran\n" {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}
