//go:build linux

package nsrun

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsexec"
)

// withoutCore adds a limit that prevents core dumps. One byte is too little for a file, and disables programs that
// receive dumps; zero does not (core(5)). Such a program would run outside the sandbox, with the memory of the command.
func withoutCore(limits []nsexec.Rlimit) []nsexec.Rlimit {
	var now unix.Rlimit
	if slices.ContainsFunc(limits, func(l nsexec.Rlimit) bool { return l.Resource == unix.RLIMIT_CORE }) ||
		unix.Getrlimit(unix.RLIMIT_CORE, &now) != nil || now.Max < 1 {
		return limits
	}
	return append(slices.Clip(limits), nsexec.Rlimit{Resource: unix.RLIMIT_CORE, Soft: 1, Hard: 1})
}
