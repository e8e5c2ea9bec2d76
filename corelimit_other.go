//go:build !linux

package nsrun

import "github.com/nsrun/nsrun/nsexec"

func withoutCore(limits []nsexec.Rlimit) []nsexec.Rlimit { return limits }
