//go:build linux

package testenv

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

const programsEnv = "NSRUN_TEST_PROGRAMS"

// MainWithPrograms is Main for tests of programs: they are built once, by build, in a directory that both runs
// of the tests know (Programs).
func MainWithPrograms(m *testing.M, build func(dir string) error) {
	if os.Getenv(programsEnv) != "" || special() {
		Main(m)
	}
	os.Exit(withPrograms(build))
}

func withPrograms(build func(dir string) error) int {
	dir, err := os.MkdirTemp("", "nsrun-programs-")
	if err != nil {
		return complain(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := errors.Join(os.Chmod(dir, 0o755), build(dir)); err != nil {
		return complain(err)
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), programsEnv+"="+dir)
	return runAgain(c, os.Args[0])
}

// Programs is the directory with what MainWithPrograms has built.
func Programs() string { return os.Getenv(programsEnv) }
