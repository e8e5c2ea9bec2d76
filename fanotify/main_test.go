//go:build linux

package fanotify

import (
	"os"
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
	testenv.Main(m)
}
