//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestRemedies: each finding has its own remedy, and reasons are not mixed.
func TestRemedies(t *testing.T) {
	const fine = "/proc/filesystems"
	for _, c := range []struct {
		name  string
		host  map[string]string
		wants []string // a line of each
	}{
		{"all is well", nil, nil},
		{"no user namespaces", map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, []string{"run sysctl -w user.max_user_namespaces=10000"}},
		{"two limits", map[string]string{"/proc/sys/user/max_user_namespaces": "0", "/proc/sys/user/max_net_namespaces": "0"},
			[]string{"run sysctl -w user.max_user_namespaces=10000", "        user.max_user_namespaces = 10000\n        user.max_net_namespaces = 10000\n"}},
		{"a limit beside earlier settings", map[string]string{"/proc/sys/user/max_net_namespaces": "0", limitsName: "kernel.x = 1\nuser.max_net_namespaces=3\nuser.y = 2"},
			[]string{"write " + limitsName + ":\n        kernel.x = 1\n        user.y = 2\n        user.max_net_namespaces = 10000\n    run"}},
		{"Debian's switch", map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, []string{"run sysctl -w kernel.unprivileged_userns_clone=1"}},
		{"AppArmor", map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
			[]string{"write /etc/apparmor.d/nsrun:\n        # AppArmor profile"}},
		{"AppArmor, with the profile", map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1", profileName: profile}, nil},
		{"AppArmor, and a program that its user can replace", map[string]string{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1", profileName: profile, "self": "/home/me/go/bin/nsrun", "/home/me/go/bin/nsrun-mcp": "\x7fELF"},
			[]string{"and this is /home/me/go/bin/nsrun:\n    run install -m 755 /home/me/go/bin/nsrun /usr/local/bin/nsrun\n    run install -m 755 /home/me/go/bin/nsrun-mcp /usr/local/bin/nsrun-mcp\n"}},
		{"no AppArmor, and a program that its user can replace", map[string]string{"self": "/home/me/go/bin/nsrun"}, nil},
		{"no overlay", map[string]string{fine: "\text4"}, []string{"run modprobe overlay"}},
		{"systemd", map[string]string{"/run/systemd/system/": "1", "/sys/fs/cgroup/cgroup.controllers": "cpu memory pids"},
			[]string{"        [Service]\n        Delegate=cpu memory pids\n    run systemctl daemon-reload\n"}},
		{"no range of ids", map[string]string{"/usr/bin/newuidmap": "\x7fELF", "/etc/passwd": "root:x:0:\nme:x:1000:", "/etc/subuid": "you:100000:65536\n7:300000:10"},
			[]string{"    run usermod --add-subuids 300010-365545 me\n    run usermod --add-subgids 100000-165535 me\n"}},
		{"a range of ids", map[string]string{"/usr/bin/newuidmap": "\x7fELF", "/etc/passwd": "me:x:1000:", "/etc/subuid": "me:5:6", "/etc/subgid": "me:5:6"}, nil},
		{"a user of another list", map[string]string{"/usr/bin/newuidmap": "\x7fELF", "/etc/passwd": "you:x:1000:"}, nil},
		{"no newuidmap", map[string]string{"/etc/passwd": "me:x:1000:"}, nil},
	} {
		var out bytes.Buffer
		self := "/usr/local/bin/nsrun"
		if at, ok := c.host["self"]; ok {
			self = at
		}
		list := remedies("me", self, func(name string) string {
			if text, ok := c.host[name]; ok || name != fine {
				return text
			}
			return "nodev\toverlay"
		}, nil)
		for i := range list {
			list[i].print(&out)
		}
		if len(list) != len(c.wants) {
			t.Errorf("%s: %d remedies, want %d\n%s", c.name, len(list), len(c.wants), &out)
		}
		for _, want := range c.wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", c.name, want, &out)
			}
		}
	}
}

// TestRefusedRemedy: what was refused is not done together with another remedy.
func TestRefusedRemedy(t *testing.T) {
	read := func(name string) string {
		if strings.HasPrefix(name, "/proc/sys/user/max_") {
			return "0"
		}
		return "nodev\toverlay"
	}
	all := remedies("", "/usr/bin/nsrun", read, nil)
	rest := remedies("", "/usr/bin/nsrun", read, map[string]bool{all[0].why: true})
	if len(rest) != len(all)-1 || rest[0].why != all[1].why || strings.Contains(rest[0].files[0].content, "user.max_user_namespaces") {
		t.Errorf("of %v: %v", all, rest)
	}
}

// TestFix: on a host without namespaces, doctor --fix says what it will do, asks, and does it; then sandboxes work. The
// host is a user namespace whose limit is 0, with directories of its own for what is written.
func TestFix(t *testing.T) {
	bin, dir := installed(t), testenv.Dir(t)
	if _, err := exec.LookPath("sysctl"); err != nil {
		testenv.Skip(t, "sysctl", err.Error())
	}
	testenv.Tree(t, dir, "project/", "sysctl.d/")
	nsrun := filepath.Join(bin, "nsrun")
	host := func(script string) *exec.Cmd {
		c := exec.Command(nsrun, "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL", "--dev-bind", "/", "/",
			"--bind", filepath.Join(dir, "sysctl.d"), "/etc/sysctl.d", "--", "/bin/sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces || exit 99\n"+script)
		c.Dir, c.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir)
		return c
	}
	run := nsrun + " run --backend native --discard -- true"
	if _, err := os.Stat("/etc/sysctl.d"); err != nil {
		testenv.Skip(t, "/etc/sysctl.d", err.Error())
	}
	out, err := host("! " + run + " && " + nsrun + " doctor --fix --print && ! " + run).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "    run sysctl -w user.max_user_namespaces=10000\n") {
		t.Fatalf("--print: %v\n%s", err, out)
	}
	for _, answer := range []string{"n", "y"} {
		p := testenv.NewTerminal(t)
		want := map[string]string{"n": "! ", "y": ""}[answer]
		c := host(nsrun + " doctor --fix && " + want + run + " && echo FINE")
		p.Attach(c)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		p.Await("do that? [y/N]")
		if strings.Contains(p.Screen(), "done") {
			t.Error("doctor made the change before the answer")
		}
		p.Type(answer + "\n")
		p.Await("FINE")
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", answer, err, p.Screen())
		}
		b, err := os.ReadFile(filepath.Join(dir, "sysctl.d", "60-nsrun.conf"))
		if written := err == nil && string(b) == "user.max_user_namespaces = 10000\n"; written != (answer == "y") {
			t.Errorf("%s: %s, %v", answer, b, err)
		}
		p.Close()
	}
}
