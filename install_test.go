//go:build linux

package nsrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// installing makes a directory with what the Makefile installs, and runs make in it.
func installing(t *testing.T) (dir string, run func(words ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		testenv.Skip(t, "make", err.Error())
	}
	dir = t.TempDir()
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "nsrun: 1", "nsrun-mcp: 1", "nsrun-credential: 1", "man/nsrun.1: 1", "completions/nsrun.bash: 1", "completions/_nsrun: 1",
		"completions/nsrun.fish: 1", "cmd/nsrun/apparmor/nsrun: 1", "restricted: 1")
	return dir, func(words ...string) string {
		t.Helper()
		cmd := exec.Command("make", append([]string{"-s", "PREFIX=" + dir + "/prefix", "RESTRICTED=restricted"}, words...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
		return string(out)
	}
}

// TestInstallOld: who forgets to build is told what is installed.
func TestInstallOld(t *testing.T) {
	dir, run := installing(t)
	run("install", "RESTRICTED=none")
	testenv.Tree(t, dir, "a_test.go: 1")
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "a_test.go"), later, later); err != nil {
		t.Fatal(err)
	}
	if out := run("install", "RESTRICTED=none"); out != "" {
		t.Error(out)
	}
	if err := os.Rename(filepath.Join(dir, "a_test.go"), filepath.Join(dir, "cmd/a.go")); err != nil {
		t.Fatal(err)
	}
	if out := run("install", "RESTRICTED=none"); !strings.Contains(out, "nsrun was built before the source changed") {
		t.Errorf("%q", out)
	}
}

// TestInstallAsUser: where AppArmor restricts user namespaces, an ordinary user can install below a prefix, and is told
// which programs the restriction lets through.
func TestInstallAsUser(t *testing.T) {
	if os.Geteuid() == 0 {
		return // root writes to /etc
	}
	dir, run := installing(t)
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
