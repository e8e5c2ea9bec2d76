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

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestGroup: an ordinary user's user namespace has only the user's own group. If the project belongs to another group
// of the user, the command works on a copy. With --engine overlay, nsrun says that the command cannot change it.
func TestGroup(t *testing.T) {
	testenv.NeedRoot(t) // to have another group
	testenv.Leaks(t, reap)
	const user, group = 65534, 54321
	t.Setenv("TMPDIR", "/tmp") // root's own cannot be reached by others
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/file: old\n", "home/", "bin/")
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/nsrun"), exe, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, gid := range map[string]int{"p": group, "p/file": group, "home": user} {
		if err := os.Chown(filepath.Join(dir, name), user, gid); err != nil {
			t.Fatal(err)
		}
	}
	notice := "nsrun: group of " + filepath.Join(dir, "p") + " does not exist in the sandbox: the command cannot change files of that group in an overlay (try: nsrun run --engine copy)\n"
	for _, c := range []struct {
		args    string
		gid     uint32
		told    bool
		content string
	}{
		{"--engine overlay", user, true, "old\n"}, // the control: it is true
		{"-q --engine overlay", user, false, "old\n"},
		{"--engine overlay", group, false, "new\n"},
		{"", user, false, "new\n"},
		{"", group, false, "new\n"},
		{"--engine copy", user, false, "new\n"},
		{"--direct", user, false, "new\n"},
	} {
		file := filepath.Join(dir, "p/file")
		if err := os.WriteFile(file, []byte("old\n"), 0); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"run"}, strings.Fields(c.args)...)
		if c.args != "--direct" {
			args = append(args, "--commit")
		}
		cmd := exec.Command(filepath.Join(dir, "bin/nsrun"), append(args, "--", "sh", "-c", "echo new >file; true")...)
		cmd.Dir = filepath.Join(dir, "p")
		cmd.Env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "GORACE=atexit_sleep_ms=0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: c.gid, Groups: []uint32{group}}}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), notice) != c.told {
			t.Errorf("%s, group %d: %v\n%s", c.args, c.gid, err, out)
		}
		if b, err := os.ReadFile(file); string(b) != c.content {
			t.Errorf("%s, group %d: there is %q, %v\n%s", c.args, c.gid, b, err, out)
		}
	}
}

// TestRootOfGroup: root's command runs with the group that root has, as in a container with user 0:1000, and its files
// get that group.
func TestRootOfGroup(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	const group = 54321
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/file: old\n", "home/")
	for _, flags := range []string{"--commit", "--commit --engine copy", "--commit --engine tmpfs", "--commit --preset build", "--direct"} {
		for _, gid := range []uint32{group, 0} { // 0: the control
			cmd := exec.Command(filepath.Join(bin, "nsrun"), append(append([]string{"run"}, strings.Fields(flags)...), "--", "sh", "-c", "id -g; echo new >new; rm file")...)
			cmd.Dir, cmd.Env = filepath.Join(dir, "p"), append(os.Environ(), "HOME="+filepath.Join(dir, "home"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: gid}}
			got := runs(t, bin, "nsrun", cmd)
			var st syscall.Stat_t
			err := syscall.Lstat(filepath.Join(dir, "p/new"), &st)
			if got.status != 0 || err != nil || st.Uid != 0 || st.Gid != gid || !strings.Contains(got.out, fmt.Sprintln(gid)) {
				t.Errorf("%s, group %d: status %d, %v, group %d of the file\n%s", flags, gid, got.status, err, st.Gid, got.out)
			}
			_ = os.Remove(filepath.Join(dir, "p/new"))
			testenv.Tree(t, dir, "p/file: old\n")
		}
	}
}
