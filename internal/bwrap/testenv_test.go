//go:build linux

package bwrap

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// realBubblewrap returns the path of a bubblewrap 0.12.0 to compare with, or
// skips the test and says why. NSRUN_BWRAP names it; without that it is
// looked for on PATH, where other versions do not count.
func realBubblewrap(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NSRUN_BWRAP")
	if path == "" {
		var err error
		if path, err = exec.LookPath("bwrap"); err != nil {
			testenv.Skip(t, "bubblewrap", "NSRUN_BWRAP is not set and there is no bwrap on PATH")
		}
	}
	out, err := exec.Command(path, "--version").CombinedOutput()
	version := strings.TrimSpace(string(out))
	if err == nil && version == "bubblewrap 0.12.0" {
		return path
	}
	why := path + " is not a bubblewrap 0.12.0 but says " + version
	if err != nil {
		why += " (" + err.Error() + ")"
	}
	testenv.Skip(t, "bubblewrap", why)
	return ""
}
