//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// effectiveScript says which ids the command has, and whether it can become root again.
const effectiveScript = "grep -h -E '^(Uid|Gid):' /proc/self/status | tr -s '\\n\\t' '  '; " +
	"setpriv --euid 0 true 2>/dev/null && echo root || echo not root"

// helpEffective starts a sandbox, changes its effective ids alone, and runs the script in another one, without
// namespaces if it has a directory for that.
func helpEffective(dirs []string) int {
	defer nsexec.Shutdown()
	err := errors.Join(shell("true").Run(), syscall.Setresgid(-1, 65534, -1), syscall.Setresuid(-1, 65534, -1))
	c := shell(effectiveScript)
	for _, dir := range dirs {
		var cerr error
		if c, cerr = confinedTo(dir, "sh", "-c", effectiveScript); cerr != nil {
			fmt.Println(cerr)
			return 0
		}
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err = errors.Join(err, c.Run()); err != nil {
		fmt.Println(err)
	}
	return 0
}

// TestEffectiveIDs: commands of a program that changed its effective ids alone have these and no others. The control is
// the script natively, which becomes root again.
func TestEffectiveIDs(t *testing.T) {
	testenv.NeedRoot(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		testenv.Skip(t, "setpriv", err.Error())
	}
	leaks(t)
	dir := testenv.Dir(t)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "ws"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := effectiveNatively(t); !strings.HasSuffix(got, " root\n") || strings.HasSuffix(got, " not root\n") {
		t.Fatalf("natively: %q", got)
	}
	for name, args := range map[string][]string{"namespaces": nil, "none": {dir}} {
		if args != nil && !features.Has(features.LandlockScopes) {
			continue
		}
		c := exec.Command(exe, args...)
		c.Env = append(os.Environ(), helperVars("effective")...)
		out, err := c.CombinedOutput()
		const ids = "65534 65534 65534 65534"
		if want := "Uid: " + ids + " Gid: " + ids + " not root\n"; err != nil || string(out) != want {
			t.Errorf("%s: got %q, %v; want %q", name, out, err, want)
		}
	}
}

// effectiveNatively runs the script with the real ids of root and the effective ones of nobody, without capabilities.
func effectiveNatively(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("setpriv", "--egid", "65534", "--euid", "65534", "--clear-groups", "--bounding-set", "-all", "sh", "-pc", effectiveScript).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
