//go:build linux && !race

package differ

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// binEnv is the directory with the programs: real/bwrap, ours/bwrap and probe, and
// a place for the runs. The first process makes it, before testenv starts the others.
const binEnv = "NSRUN_DIFFER_BIN"

func TestMain(m *testing.M) {
	if os.Getenv("NSRUN_BWRAP") != "" && os.Getenv(binEnv) == "" {
		os.Exit(withPrograms())
	}
	// What outlives a monitor becomes a child of the test, which ends it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.Main(m)
}

// withPrograms builds the programs and starts the tests in a process of their own,
// after which the programs are removed.
func withPrograms() int {
	dir, err := os.MkdirTemp("", "nsrun-differ-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = programs(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "differ:", err)
		return 1
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Args[0] = os.Args[0]
	c.Env = append(os.Environ(), binEnv+"="+dir)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() > 0 {
			return ee.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "differ:", err)
		return 1
	}
	return 0
}

func programs(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"real", "ours", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o1777); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(dir, "real/bwrap"), os.Getenv("NSRUN_BWRAP"), 0o755); err != nil {
		return err
	}
	out, err := exec.Command(filepath.Join(dir, "real/bwrap"), "--version").CombinedOutput()
	if string(out) != "bubblewrap 0.12.0\n" {
		return fmt.Errorf("NSRUN_BWRAP: %s is not a bubblewrap 0.12.0: %q %v", os.Getenv("NSRUN_BWRAP"), out, err)
	}
	for _, b := range [][]string{
		{"-ldflags=-s -w -E nsrun_early", "-o", filepath.Join(dir, "ours/bwrap"), "github.com/nsrun/nsrun/cmd/nsrun"},
		{"-o", filepath.Join(dir, "probe"), "github.com/nsrun/nsrun/internal/differ/probe"},
	} {
		c := exec.Command("go", append([]string{"build"}, b...)...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", c.Args, err, out)
		}
	}
	return nil
}

func copyFile(to, from string, perm fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(perm), out.Close())
}

// bin is the directory with the programs. Without a bubblewrap to compare with the
// test is skipped.
func bin(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(binEnv)
	if dir == "" {
		testenv.Skip(t, "bubblewrap", "NSRUN_BWRAP must name the program of bubblewrap 0.12.0")
	}
	return dir
}
