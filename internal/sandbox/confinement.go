//go:build linux

package sandbox

import "github.com/nsrun/nsrun/internal/confine"

// Confinement has a command run without namespaces: Landlock (Linux 6.12) says which files it can use, and keeps it from
// everybody else's processes and abstract sockets. It needs Cmd.Share with everything, no Mounts, no Background, and a
// process above the command, which ends with all that the command has left running. What Landlock does not know of has
// to be refused by filters.
type Confinement struct {
	Files confine.Node
	// NoConnect has the kernel refuse to bind and connect TCP sockets. False: the filters decide.
	NoConnect bool
}
