//go:build linux

package sandbox

import "github.com/nsrun/nsrun/internal/confine"

// Confinement runs a command without namespaces. Landlock (Linux 6.12) says which files it can use, and keeps it away
// from other processes and from abstract sockets. Cmd.Share must have all namespaces, and there can be no Mounts and no
// Background. The command's parent, the reaper, ends everything that the command has left running. Filters must refuse
// what Landlock does not cover.
type Confinement struct {
	Files confine.Node
	// NoConnect makes the kernel refuse to bind and connect TCP sockets. False: the filters decide.
	NoConnect bool
}
