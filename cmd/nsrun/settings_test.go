//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSandboxSettings: enabled, isolate_network, isolate_pids, extra_rw_paths, extra_ro_paths, blocked_paths and
// env_passthrough in the user's file.
func TestSandboxSettings(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/.cargo/", "home/.ssh/id: key", "tools/tool: x", "p/.git/objects/", "p/secret: hidden?",
		"home/.config/nsrun/config.toml: [sandbox]\nenabled = true\nisolate_network = true\nisolate_pids = true\nextra_rw_paths = [\"~/.cargo\"]\nextra_ro_paths = [\""+
			filepath.Join(dir, "tools")+"\"]\nblocked_paths = [\"secret\"]\nenv_passthrough = [\"A_TOKEN\"]\n")
	env := []string{"HOME=" + filepath.Join(dir, "home"), "A_TOKEN=a", "B_TOKEN=b", "LC_ALL=C"}
	for _, c := range []struct{ command, want string }{
		{"echo x >~/.cargo/f && echo written", "written\n"},
		{"cat " + dir + "/tools/tool; echo y >" + dir + "/tools/tool || echo refused", "xsh: 1: cannot create " + dir + "/tools/tool: Read-only file system\nrefused\n"},
		{"cat secret || echo refused", "cat: secret: Permission denied\nrefused\n"},
		{"cat ~/.ssh/id 2>/dev/null || echo refused", "refused\n"},
		{"echo $A_TOKEN-$B_TOKEN", "a-\n"},
		{"ls -d /proc/[0-9]* | wc -l | grep -q '^[1-9]$' && echo few", "few\n"},
		{"tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo\n"},
	} {
		status, out := nsrunIn(t, filepath.Join(dir, "p"), env, "run", "-q", "--discard", "--", "sh", "-c", c.command)
		if status != 0 || out != c.want {
			t.Errorf("%s: status %d, %s", c.command, status, out)
		}
	}
	for name, want := range map[string]string{"home/.cargo/f": "x\n", "tools/tool": "x"} {
		if b, _ := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s: %q", name, b)
		}
	}
}

// TestDeeperPathWins: between rw_paths and ro_paths, however they are written and wherever links lead.
func TestDeeperPathWins(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/data/keep/", "home/data/keep/out/", "store/keep/", "home/a/b/c/", "home/a/b/c/link => "+filepath.Join(dir, "store"), "p/.git/objects/", "p/src/gen/out/vendor/",
		"home/.config/nsrun/config.toml: [sandbox]\nrw_paths = [\"~/data\", \"$HOME/data/keep/out\", \"~/a/b/c/link\", \"src/gen/out\"]\n"+
			"ro_paths = [\"$HOME/data/keep\", \""+filepath.Join(dir, "store/keep")+"\", \"**/vendor\"]\n")
	env := []string{"HOME=" + filepath.Join(dir, "home"), "LC_ALL=C"}
	for path, writable := range map[string]bool{
		"home/data/f": true, "home/data/keep/f": false, "home/data/keep/out/f": true, "store/f": true, "store/keep/f": false, "p/src/gen/out/f": true, "p/src/gen/out/vendor/f": false,
	} {
		name := filepath.Join(dir, path)
		status, out := nsrunIn(t, filepath.Join(dir, "p"), env, "run", "-q", "--discard", "--", "touch", name)
		_, err := os.Lstat(name)
		if status == 0 != writable || err == nil != writable || !writable && !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: status %d, %v: %s", path, status, err, out)
		}
	}
}

// TestBlockedPaths: commands cannot write to the files that start shells and git, and cannot read secrets, even if they
// write to the project directly. --ro is needed because the test's home directory lies where the sandbox has its own
// /tmp.
func TestBlockedPaths(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/.bashrc: rc", "home/.bash_profile: profile", "home/.ssh/id: key", "home/.gnupg/key: key", "p/.git/objects/", "p/.git/refs/", "p/.git/HEAD: ref: refs/heads/main\n", "p/.git/hooks/pre-commit: hook")
	env := []string{"HOME=" + filepath.Join(dir, "home"), "LC_ALL=C"}
	for _, mode := range []string{"--commit", "--direct"} {
		for _, file := range []string{"~/.bashrc", "~/.bash_profile"} {
			_, out := nsrunIn(t, filepath.Join(dir, "p"), env, "run", "-q", mode, "--ro", filepath.Join(dir, "home"), "--", "sh", "-c", "echo x >>"+file+"; cat "+file)
			if !strings.Contains(out, "Read-only file system") || !strings.HasSuffix(out, strings.TrimPrefix(file, "~/.bash_")) && !strings.HasSuffix(out, "rc") {
				t.Errorf("%s %s: %s", mode, file, out)
			}
		}
		for _, file := range []string{"~/.ssh/id", "~/.gnupg/key", "/etc/shadow"} {
			if status, out := nsrunIn(t, filepath.Join(dir, "p"), env, "run", "-q", mode, "--ro", filepath.Join(dir, "home"), "--", "sh", "-c", "cat "+file); (status == 0 || !strings.Contains(out, "Permission denied")) && !accounts(file, out) {
				t.Errorf("%s %s: status %d, %s", mode, file, status, out)
			}
		}
		_, out := nsrunIn(t, filepath.Join(dir, "p"), env, "run", "-q", mode, "--ro", filepath.Join(dir, "home"), "--", "sh", "-c", "echo evil >.git/hooks/pre-commit; echo evil >.git/hooks/new; true")
		if b, _ := os.ReadFile(filepath.Join(dir, "p/.git/hooks/pre-commit")); string(b) != "hook" {
			t.Errorf("%s: the hook is %q: %s", mode, b, out)
		}
		if _, err := os.Lstat(filepath.Join(dir, "p/.git/hooks/new")); err == nil {
			t.Errorf("%s: there is a new hook: %s", mode, out)
		}
	}
}

// accounts reports whether a text is what root's command in a session sees of /etc/shadow: lines without passwords.
func accounts(file, text string) bool {
	if file != "/etc/shadow" || os.Geteuid() != 0 || text == "" {
		return false
	}
	for line := range strings.Lines(text) {
		if _, rest, _ := strings.Cut(strings.TrimSpace(line), ":"); rest != "*:::::::" {
			return false
		}
	}
	return true
}
