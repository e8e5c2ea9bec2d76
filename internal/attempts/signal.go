//go:build linux

package attempts

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// signalCalls send a signal to a process by its number, or open the process for that. Calls that send one to a thread
// are not among them, because programs often send these to themselves. Nor is ptrace(2), whose other requests are
// frequent.
var signalCalls = [...]int32{unix.SYS_KILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_PIDFD_OPEN}

// before is more than the number of processes that a sandbox makes before it is observed (its PID 1), with forks that
// failed.
const before = 64

// signal reports a signal to a process of the host. In the sandbox, where the kernel counts anew, the caller's number
// means another process, or none. It was meant for the host if no process of the sandbox can have had it. A signal that
// would fail outside too is not reported.
func (o *Observer) signal(n *notify.Notification) {
	number := int(int32(n.Args[0]))
	if n.NR == unix.SYS_PTRACE { // to attach to it
		number = int(int32(n.Args[1]))
	}
	target := number
	if n.NR == unix.SYS_KILL && number < -1 {
		number = -number // a group
	}
	if number <= 1 || unix.Kill(target, 0) != nil || counted(number, o.lowest, forks()-o.forks) {
		return
	}
	if by := process(n.PID); by.Host > 0 && by.PID > 0 && by.Host != by.PID {
		o.tell(n, Attempt{Kind: Signal, Number: number, Err: unix.ESRCH})
	}
}

// counted reports whether a process of a sandbox can have had a number: lowest is the command's own, and made is how
// many processes the whole host has made meanwhile. The kernel counts from 1, for namespaces in the sandbox too, and
// for commands from the number that the sandbox sets (nsexec.Cmd).
func counted(number, lowest int, made uint64) bool {
	return uint64(number) <= made+before || number+before >= lowest && uint64(number+before-lowest) <= made+2*before
}

// forks returns how many processes and threads this host has made.
func forks() uint64 {
	b, _ := os.ReadFile("/proc/stat")
	return uint64(notify.Last(b, "processes "))
}
