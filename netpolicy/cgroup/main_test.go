//go:build linux

package cgroup_test

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// helperEnv makes this binary one of the helpers.
const helperEnv = "NSRUN_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		os.Exit(helpers[name](os.Args[1:]))
	}
	nettest.Main()
	testenv.Main(m, nsexec.Shutdown)
}
