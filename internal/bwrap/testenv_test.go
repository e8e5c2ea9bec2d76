package bwrap

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// realBubblewrap returns the path of a bubblewrap 0.12.0 to compare with, or
// skips the test and says why. NSRUN_BWRAP names it; without that it is
// looked for on PATH, where other versions do not count. With NSRUN_MUST_WORK
// set, one that was promised by NSRUN_BWRAP and cannot be used is a failure.
func realBubblewrap(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NSRUN_BWRAP")
	if path == "" {
		var err error
		if path, err = exec.LookPath("bwrap"); err != nil {
			notHere(t, "NSRUN_BWRAP is not set and there is no bwrap on PATH")
		}
	}
	out, err := exec.Command(path, "--version").CombinedOutput()
	version := strings.TrimSpace(string(out))
	if err == nil && version == "bubblewrap 0.12.0" {
		return path
	}
	why := path + " is no bubblewrap 0.12.0 but says " + version
	if err != nil {
		why += " (" + err.Error() + ")"
	}
	notHere(t, why)
	return ""
}

// notHere skips a comparison, or fails where NSRUN_MUST_WORK is set and
// NSRUN_BWRAP promised it.
func notHere(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("NSRUN_BWRAP") != "" && os.Getenv("NSRUN_MUST_WORK") != "" {
		t.Fatal("NSRUN_BWRAP: " + why)
	}
	t.Skip("skipped the comparison with bubblewrap 0.12.0: " + why)
}
