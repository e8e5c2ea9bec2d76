// Package mounts describes the file system of a sandbox as an ordered list of mounts, and checks the list without
// touching the system.
//
//	plan := mounts.Plan{
//		mounts.ROBind("/", "/"),
//		mounts.Dev("/dev"),
//		mounts.Proc("/proc"),
//		mounts.Tmpfs("/tmp"),
//		mounts.Bind("/home/me/src", "/home/me/src"),
//	}
//
// Later mounts lie over earlier ones. A Plan without a mount on "/" begins with an empty tmpfs there; the empty Plan
// shows nothing of the host.
//
// It imports internal/escape only, and does nothing to the system: internal/mountprog compiles a Plan, and package
// nsexec runs a command in it.
package mounts
