//go:build linux

package nsrun

import (
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/limits"
)

// TestOutgrown: where the kernel kills one process of a command for lack of memory, and the command ends before nsrun
// has killed the others, it failed all the same.
func TestOutgrown(t *testing.T) {
	for _, c := range []struct {
		name   string
		by     limits.By
		killed bool
		signal syscall.Signal // that ended the command; zero: it exited
		exit   int
		want   int
		failed bool
	}{
		{"ended with the others", limits.ByV1, true, syscall.SIGKILL, 137, 137, false}, // the process says it
		{"ended before", limits.ByV1, true, 0, 0, 137, true},
		{"failed before", limits.ByV1, true, 0, 2, 137, true},
		{"within the limit", limits.ByV1, false, 0, 0, 0, false},
		{"the kernel kills all", limits.ByV2, true, 0, 0, 0, false},
		{"nsrun kills all", limits.ByRunner, true, 0, 0, 0, false},
	} {
		x := &Execution{}
		if x.result.ExitCode = c.exit; c.signal != 0 {
			x.result.Signal = c.signal
		}
		x.settleOutcomes([]limits.Outcome{{Held: limits.Held{Name: limits.Memory, Value: 1 << 20, By: c.by}, Hit: c.killed, Killed: c.killed}})
		res := &x.result
		if res.ExitCode != c.want || x.failed() != c.failed || (res.Signal == syscall.SIGKILL) != (c.want == 137) || res.Limits[0].Killed != (c.want == 137) {
			t.Errorf("%s: status %d, signal %v, failed %v, %+v", c.name, res.ExitCode, res.Signal, x.failed(), res.Limits)
		}
	}
}
