//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLittleSpace: with too little address space for the runtime, what does not need it runs, and the rest is one line.
func TestLittleSpace(t *testing.T) {
	testenv.Once(t)
	testenv.NeedCheckout(t)
	testenv.NeedNamespaces(t)
	early := filepath.Join(testenv.Dir(t), "early")
	build(t, early, runtime.GOARCH, "-ldflags=-E nsrun_early")
	for _, c := range []struct {
		limit, args string // of ulimit -v, in KiB, or of another one
		status      int
		stderr      string
	}{
		{"200000", "--ro-bind / / --dev /dev true", 0, ""},
		{"200000", "--ro-bind / / --file 0 /tmp/x true", 1, noSpace},
		{"200000", "help", 125, noSpace}, {"1048576", "help", 0, ""}, {"1160000", "help", 125, oddSpace}, {"1228800", "help", 125, oddSpace}, {"1320000", "help", 0, ""},
		{"unlimited", "help", 0, ""},
		{"-d 10000", "help", 125, noData}, {"-d 49000", "help", 125, noData}, {"-d 49152", "help", 0, ""}, {"-d 40000", "--ro-bind / / --dev /dev true", 0, ""},
		{"-s 12", "help", 125, noStack}, {"-s 12", "run true", 125, noStack}, {"-s 12", "--ro-bind / / --dev /dev true", 1, noStack},
		{"-s 16", "help", 125, noStack}, {"-s 64", "help", 0, ""},
	} {
		limit := c.limit
		if limit[0] != '-' {
			limit = "-v " + limit
		}
		cmd := exec.Command("sh", "-c", "ulimit "+limit+" && exec "+early+" "+c.args)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.status || stderr.String() != c.stderr {
			t.Errorf("ulimit %s, %s: status %d, want %d: %v\n%s", limit, c.args, got, c.status, err, stderr.String())
		}
	}
	t.Run("settings", func(t *testing.T) { testSettings(t, early) })
	t.Run("calls", func(t *testing.T) { testCalls(t, early) })
}

// TestFewThreads: with too few processes for the runtime, the end is one line; with some more, nsrun starts. The limit
// is that of a user who has no other process, and does not hold for root.
func TestFewThreads(t *testing.T) {
	testenv.Once(t)
	testenv.NeedCheckout(t)
	testenv.NeedRoot(t)
	dir := testenv.Dir(t)
	early := filepath.Join(dir, "early")
	build(t, early, runtime.GOARCH, "-ldflags=-E nsrun_early")
	const user = 1<<31 - 77
	for limit, want := range map[string]string{"1": noThreads, "4": noThreads, "8": noThreads, "10": noThreads, "40": ""} {
		cmd := exec.Command("bash", "-c", "ulimit -u "+limit+" && exec "+early+" help")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		if status := cmd.ProcessState.ExitCode(); stderr.String() != want || (status == 125) != (want != "") {
			t.Errorf("ulimit -u %s: status %d, %v\n%s", limit, status, err, stderr.String())
		}
	}
}
