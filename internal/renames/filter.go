//go:build linux

package renames

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// calls are the calls that the filter reports.
var calls = append([]uint32{unix.SYS_RENAMEAT2, unix.SYS_RENAMEAT, unix.SYS_LINKAT, unix.SYS_LANDLOCK_RESTRICT_SELF}, oldCalls...)

// Deny returns deny, and refuses fanotify_init(2) too, as container runtimes do: what fanotify reports is named by
// handles that name_to_handle_at(2) does not give in an overlay. Programs that watch files then use inotify.
func Deny(deny []unix.SockFilter) []unix.SockFilter {
	var f seccomp.Filter
	f.Begin(seccomp.Arch, false)
	f.When(seccomp.Equal, unix.SYS_FANOTIFY_INIT, func() { f.Refuse(unix.EPERM) })
	return append(f, deny...)
}

// filter returns a filter that reports calls. Otherwise it answers as deny does, which must refuse the calls of other
// architectures.
func filter(deny []unix.SockFilter) []unix.SockFilter {
	f := make([]unix.SockFilter, 0, len(calls)+5+len(deny))
	f = append(f,
		unix.SockFilter{Code: seccomp.Load, K: seccomp.DataArch},
		unix.SockFilter{Code: seccomp.Equal, Jf: uint8(len(calls) + 2), K: seccomp.Arch},
		unix.SockFilter{Code: seccomp.Load, K: seccomp.DataNr})
	for i, nr := range calls {
		jump := unix.SockFilter{Code: seccomp.Equal, Jt: uint8(len(calls) - 1 - i), K: nr}
		if i == len(calls)-1 {
			jump.Jf = 1
		}
		f = append(f, jump)
	}
	return slices.Concat(f, []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Notify}}, deny)
}
