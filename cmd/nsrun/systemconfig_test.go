//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSystemConfig: /etc/nsrun/config.toml holds for root and for others, nobody gets around what it locks, and nsrun
// refuses the file if others can have written it. The test mounts a directory of its own over /etc, in its own mount
// namespace.
func TestSystemConfig(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "bin/", "upper/nsrun/", "upper/elsewhere/", "work/")
	bin, upper := filepath.Join(dir, "bin/nsrun"), filepath.Join(dir, "upper")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	// etckeeper makes /etc a work tree, in which root's commands can have made links.
	if err := unix.Mknod(filepath.Join(upper, ".git"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s/work", upper, dir)
	if err := unix.Mount("overlay", "/etc", "overlay", 0, data); err != nil {
		testenv.Skip(t, "overlay", err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	const file = "/etc/nsrun/config.toml"
	const managed = `locked = ["limits.timeout", "sandbox.allow_net", "sandbox.mode", "sandbox.enabled", "sandbox.clear_env", "sandbox.blocked_paths"]
[sandbox]
blocked_paths = ["secret"]
env = ["MANAGED=yes"]
allow_net = ["127.0.0.9:9"]
[limits]
timeout = "1h"
nofile = 99
[profile.make]
match = ["/bin/echo"]
env = ["PROFILE=yes"]
`
	write := func(text string) func() error {
		return func() error { return os.WriteFile(file, []byte(text), 0o644) }
	}
	for _, c := range []struct {
		name       string
		make       func() error // the file; nil: the managed one
		user, proj string       // the user's file, and the project's, which is trusted
		words      string       // of the command line
		status     int
		says       string
	}{
		{name: "hides", words: "run --discard -- sh -c cat<secret", status: 2},
		{name: "is not there", make: func() error { return nil }, words: "run --discard -- sh -c cat<secret", says: "hidden?"},
		{name: "sets", words: "run --discard -- printenv MANAGED", says: "yes"},
		{name: "limits", words: "run --discard -- sh -c ulimit${IFS}-n", says: "99"},
		{name: "profile", words: "config show -- /bin/echo x", says: "env = [\"PROFILE=yes\"]            # profile make, system /etc/nsrun/config.toml:11:8"},
		{name: "origin", words: "config show", says: "limits.timeout = \"1h0m0s\"                # system /etc/nsrun/config.toml:7:11"},
		{name: "the user's file wins", user: "[limits]\nnofile = 77", words: "run --discard -- sh -c ulimit${IFS}-n", says: "77"},
		{name: "a flag wins", words: "run --discard --nofile 66 -- sh -c ulimit${IFS}-n", says: "66"},
		{name: "the user adds", user: "[sandbox]\nblocked_paths = ['other']", words: "run --discard -- sh -c cat<secret||cat<other", status: 2},
		{name: "locked, and stricter", words: "run --discard --timeout 1m -- printenv MANAGED", says: "yes"},
		{name: "locked for flags", words: "run --timeout 2h -- touch ran", status: 125, says: "--timeout: timeout is locked by /etc/nsrun/config.toml:1:11, and can only be made stricter"},
		{name: "locked rules", words: "run --allow-net 127.0.0.1:1 -- touch ran", status: 125, says: "--allow-net: allow_net is locked"},
		{name: "locked rules, and a network of a preset", words: "run --preset github -- touch ran", status: 125, says: "--preset: allow_net is locked"},
		{name: "locked rules, and the host's network", words: "run --net host -- touch ran", status: 125, says: "--net: allow_net is locked"},
		{name: "locked, and hides what flags show", words: "run --discard --ro secret -- sh -c cat<secret", status: 2, says: "secret is blocked, and blocked_paths is locked\n"},
		{name: "locked, and no flag is named", words: "why secret", says: "no\n  write    no\n"},
		{name: "locked, and hides what flags make writable", words: "run --direct --rw secret -- sh -c cat<secret", status: 2},
		{name: "not locked", make: write("[sandbox]\nblocked_paths = ['secret']"), words: "run --discard --ro secret -- sh -c cat<secret", says: "hidden?"},
		{name: "a locked limit, and no flag is named", make: write("locked = ['limits.output']\n[limits]\noutput = '1K'"), words: "run --discard -- yes", status: 137, says: "killed: output limit 1 KiB reached\n"},
		{name: "a limit that is not locked", make: write("[limits]\noutput = '1K'"), words: "run --discard -- yes", status: 137, says: "killed: output limit 1 KiB reached (try: --output 2K)\n"},
		{name: "locked mode", words: "run --sandbox disabled -- touch ran", status: 125, says: "is locked by /etc/nsrun/config.toml:1:"},
		{name: "locked for the user", user: "[sandbox]\nenabled = false", words: "run -- touch ran", status: 125, says: "enabled is locked"},
		{name: "locked for profiles", user: "[profile.x]\nmatch = ['touch']\ntimeout = '2h'", words: "run -- touch ran", status: 125, says: "timeout is locked"},
		{name: "locked for projects", proj: "[sandbox]\nmode = 'preferred'", words: "run -- touch ran", status: 125, says: ".nsrun.toml:2:1: mode is locked"},
		{name: "locked, and left as it is", user: "[sandbox]\nclear_env = false", words: "run --discard -- printenv MANAGED", says: "yes"},
		{name: "only there", make: write(""), user: "locked = ['limits.timeout']", words: "run -- touch ran", status: 125, says: "locked is valid only in the system's file"},
		{name: "cannot be written", words: "run --discard -- sh -c echo${IFS}x>>" + file, status: 2, says: "cannot create"},
		{name: "cannot be made writable", words: "run --discard --rw /etc/nsrun -- touch ran", status: 125, says: "/etc/nsrun"},
		{name: "a mistake", make: write("[sandbox]\nblock = []\n"), words: "run -- touch ran", status: 125, says: file + ":2:1: there is no key block"},
		{name: "a mistake is found", make: write("[sandbox]\nblock = []\n"), words: "config check", status: 125, says: file + ":2:1: there is no key block"},
		{name: "a link of root's", make: func() error {
			return os.WriteFile("/etc/elsewhere/c.toml", []byte(managed), 0o644)
		}, words: "run --discard -- printenv MANAGED", says: "yes"},
		{name: "a link to what others wrote", make: func() error { return nil }, words: "run -- touch ran", status: 125, says: "user 54321"},
		{name: "others can write to it", make: func() error { return os.WriteFile(file, []byte(managed), 0o600) }, words: "run -- touch ran", status: 125, says: "others can write to it"},
		{name: "others can write to its directory", words: "run -- touch ran", status: 125, says: "/etc/nsrun: everybody can write to it"},
		{name: "others own it", words: "run -- touch ran", status: 125, says: "it belongs to user 54321"},
		{name: "a FIFO", make: func() error { return unix.Mkfifo(file, 0o644) }, words: "run -- touch ran", status: 125, says: "not a regular file"},
		{name: "a directory", make: func() error { return os.Mkdir(file, 0o755) }, words: "run -- touch ran", status: 125, says: "not a regular file"},
		{name: "huge", make: write(strings.Repeat("#", 100<<10)), words: "run -- touch ran", status: 125, says: "more than 64 KiB"},
	} {
		for _, uid := range []int{0, 54321} {
			t.Run(fmt.Sprintf("%s/%d", c.name, uid), func(t *testing.T) {
				place := testenv.Dir(t)
				testenv.Tree(t, place, "home/.config/nsrun/", "p/secret: hidden?", "p/other: other", "p/.git/objects/")
				for name, text := range map[string]string{"home/.config/nsrun/config.toml": c.user, "p/.nsrun.toml": c.proj} {
					if text != "" {
						testenv.Tree(t, place, name+": "+text)
					}
				}
				own := func(path string) error {
					return filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
						if err != nil {
							return err
						}
						return os.Lchown(path, 54321, 54321)
					})
				}
				if uid != 0 {
					if err := own(place); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.RemoveAll("/etc/nsrun"); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir("/etc/nsrun", 0o755); err != nil {
					t.Fatal(err)
				}
				makeFile := c.make
				if makeFile == nil {
					makeFile = write(managed)
				}
				err := makeFile()
				switch c.name {
				case "a link of root's":
					err = os.Symlink("../elsewhere/c.toml", file)
				case "a link to what others wrote":
					target := filepath.Join(dir, "theirs.toml")
					if err = os.WriteFile(target, []byte(managed), 0o644); err == nil {
						if err = os.Chown(target, 54321, 54321); err == nil {
							err = os.Symlink(target, file)
						}
					}
				case "others can write to it":
					err = os.Chmod(file, 0o666)
				case "others can write to its directory":
					err = os.Chmod("/etc/nsrun", 0o777)
				case "others own it":
					err = os.Chown(file, 54321, 54321)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Remove(filepath.Join(dir, "theirs.toml")) })
				run := func(words ...string) (string, int) {
					cmd := exec.Command(bin, words...)
					cmd.Dir = filepath.Join(place, "p")
					cmd.Env = []string{"HOME=" + filepath.Join(place, "home"), "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GORACE=atexit_sleep_ms=0"}
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
					out, err := cmd.CombinedOutput()
					if cmd.ProcessState == nil {
						t.Fatal(err)
					}
					return string(out), cmd.ProcessState.ExitCode()
				}
				if c.proj != "" {
					if out, status := run("trust"); status != 0 {
						t.Fatal(out)
					}
				}
				out, status := run(strings.Fields(c.words)...)
				if status != c.status || !strings.Contains(out, c.says) {
					t.Errorf("status %d, want %d: %s", status, c.status, out)
				}
				if _, err := os.Lstat(filepath.Join(place, "p/ran")); err == nil {
					t.Error("the command was run")
				}
			})
		}
	}
}
