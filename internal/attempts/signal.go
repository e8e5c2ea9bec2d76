//go:build linux

package attempts

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// signalCalls send a signal to a process by its number, or open it to do so. Those to a thread are not among them: programs
// send these to themselves, often.
var signalCalls = [...]int32{unix.SYS_KILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_PIDFD_OPEN}

// before is more than what a sandbox has made before it is observed, which is its PID 1, and what forks that failed have counted.
const before = 64

// signal tells of a signal to a process of the host. The caller's number means another process, or none, in the sandbox, where
// the kernel counts from 1. It means one of the host if the sandbox cannot have made that many: all of the host has not made as
// many since it began. And the caller could reach that one outside: so nobody is told of what fails there too.
func (o *Observer) signal(n *notify.Notification) {
	number := int(int32(n.Args[0]))
	target := number
	if n.NR == unix.SYS_KILL && number < -1 {
		number = -number // a group
	}
	if number <= 1 || unix.Kill(target, 0) != nil {
		return
	}
	if by := process(n.PID); by.Host > 0 && by.Host != by.PID && uint64(number) > forks()-o.forks+before {
		o.tell(n, Attempt{Kind: Signal, Number: number, Err: unix.ESRCH})
	}
}

// forks is how many processes and threads this host has made, the failed ones apart.
func forks() uint64 {
	b, _ := os.ReadFile("/proc/stat")
	return uint64(field(b, "processes "))
}
