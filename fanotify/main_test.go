//go:build linux

package fanotify

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/storm"
	"github.com/nsrun/nsrun/internal/testenv"
)

// helperEnv makes the test binary do something else than test.
const helperEnv = "NSRUN_FANOTIFY_TEST_HELPER"

func TestMain(m *testing.M) {
	storm.Helper()
	switch os.Getenv(helperEnv) {
	case "overlay":
		os.Exit(overlayHelper())
	case "userns":
		os.Exit(usernsHelper())
	}
	unix.Umask(0o022)
	if os.Getenv("NSRUN_TEST_AS_ROOT") == "1" { // by testenv.Main: in a mount namespace of its own
		if err := ownFileSystem(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// disk is where temporary files are in the file system of other tests.
var disk = os.TempDir()

// ownFileSystem puts temporary files on a file system of their own, if it can be watched as a whole. Tests of other
// packages run at the same time, and their writes to a shared file system fill the queue.
func ownFileSystem() error {
	dir := filepath.Join(disk, "own")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		return nil // nor can anything be watched as a whole
	}
	w, err := New(Options{Roots: []string{dir}, Engine: Fanotify})
	if err != nil {
		return unix.Unmount(dir, 0) // before Linux 5.13
	}
	w.Close()
	return os.Setenv("TMPDIR", dir)
}
