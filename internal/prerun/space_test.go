//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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
		limit, args string // of ulimit -v, in KiB
		status      int
		stderr      string
	}{
		{"200000", "--ro-bind / / --dev /dev true", 0, ""},
		{"200000", "--ro-bind / / --file 0 /tmp/x true", 1, noSpace},
		{"200000", "help", 125, noSpace},
		{"unlimited", "help", 0, ""},
	} {
		cmd := exec.Command("sh", "-c", "ulimit -v "+c.limit+" && exec "+early+" "+c.args)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.status || stderr.String() != c.stderr {
			t.Errorf("ulimit -v %s, %s: status %d, want %d: %v\n%s", c.limit, c.args, got, c.status, err, stderr.String())
		}
	}
}
