//go:build linux

package nsexec

import (
	"math/rand/v2"

	"github.com/nsrun/nsrun/internal/prog"
)

// Process ids of commands begin above a number between these. The kernel begins again at 300 when there are no more.
const leastPID, mostPID = 300, 30000

// numberProcesses adds what makes process ids differ from sandbox to sandbox. In a new PID namespace they begin at 2.
// So the id in a file that an earlier command left (a pid file, a lock, an editor's swap file) would often be that of
// another process, and programs would take what ended with that command to be running still.
func (c *Cmd) numberProcesses(b *prog.Builder) {
	if c.Share&PID == 0 && c.forks() && !c.opt.Bubblewrap && c.opt.Confinement == nil {
		setKernel(b, "process ids", "kernel/ns_last_pid", itoa(leastPID+rand.Int64N(mostPID-leastPID)))
	}
}
