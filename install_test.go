//go:build linux

package nsrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestInstallAsUser: where AppArmor restricts user namespaces, an ordinary user can install below a prefix, and is told
// which programs the restriction lets through.
func TestInstallAsUser(t *testing.T) {
	if os.Geteuid() == 0 {
		return // root writes to /etc
	}
	if _, err := exec.LookPath("make"); err != nil {
		testenv.Skip(t, "make", err.Error())
	}
	dir := t.TempDir()
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "nsrun: 1", "nsrun-mcp: 1", "nsrun-credential: 1", "man/nsrun.1: 1", "completions/nsrun.bash: 1", "completions/_nsrun: 1",
		"completions/nsrun.fish: 1", "cmd/nsrun/apparmor/nsrun: 1", "restricted: 1")
	run := func(words ...string) string {
		t.Helper()
		cmd := exec.Command("make", append([]string{"-s", "PREFIX=" + dir + "/prefix", "RESTRICTED=restricted"}, words...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
		return string(out)
	}
	if out := run("install"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "/usr/local/bin/nsrun may make user namespaces; others may not (try: sudo make install)") {
		t.Error(out)
	}
	if _, err := os.Stat(dir + "/prefix/bin/nsrun"); err != nil {
		t.Error(err)
	}
	run("uninstall")
	if _, err := os.Stat(dir + "/prefix/bin/nsrun"); !os.IsNotExist(err) {
		t.Error(err)
	}
	run("install", "DESTDIR="+dir+"/dest") // a package has it
	if _, err := os.Stat(dir + "/dest/etc/apparmor.d/nsrun"); err != nil {
		t.Error(err)
	}
}
