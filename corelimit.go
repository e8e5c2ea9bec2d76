//go:build linux

package nsrun

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsexec"
)

// withoutCore adds a limit by which nothing is dumped: one byte is too little for a file, and means nothing at all
// for a program that takes dumps, which zero does not (core(5)). Such a program would run outside, on what
// the command has in its memory.
func withoutCore(limits []nsexec.Rlimit) []nsexec.Rlimit {
	var now unix.Rlimit
	if slices.ContainsFunc(limits, func(l nsexec.Rlimit) bool { return l.Resource == unix.RLIMIT_CORE }) ||
		unix.Getrlimit(unix.RLIMIT_CORE, &now) != nil || now.Max < 1 {
		return limits
	}
	return append(slices.Clip(limits), nsexec.Rlimit{Resource: unix.RLIMIT_CORE, Soft: 1, Hard: 1})
}
