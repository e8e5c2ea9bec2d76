// Package mounts describes the file system of a sandbox as an ordered list of
// mounts, checks the list without touching the system, and compiles it to the
// system calls that set it up.
//
//	plan := mounts.Plan{
//		mounts.ROBind("/", "/"),
//		mounts.Dev("/dev"),
//		mounts.Proc("/proc"),
//		mounts.Tmpfs("/tmp"),
//		mounts.Bind("/home/me/src", "/home/me/src"),
//	}
//
// Later steps lie over earlier ones. A Plan without a mount on "/" begins with
// an empty tmpfs there; the empty Plan shows nothing of the host.
//
// It imports internal/escape only, and does nothing to the system: package nsexec has a Plan set up, and internal/mountprog
// says how.
package mounts
