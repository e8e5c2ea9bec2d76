//go:build linux

// Package wall confines commands that run without namespaces and mounts (sandbox.Confinement) where Landlock does not:
// Landlock does not restrict calls that change a file's mode, owner, times or attributes, most sockets, System V IPC,
// and calls that change how other processes of the same user run.
//
// A filter refuses the calls that a command does not need (Filter). A command changes modes, owners, times and
// attributes all the time. So a Deputy gets each such call (seccomp_unotify(2)), opens the file that the call means,
// and makes the change itself, without any privilege, if the command may write to that file. The kernel does not carry
// out the call, so it does not matter what the command changes in its memory meanwhile. In the same way the Deputy
// makes TCP and unix sockets with which the programs of one command reach each other (sockets.go, unix.go), connects
// TCP sockets to what network rules allow (outside.go), and opens terminals, shared memory, and files without a name in
// /tmp (names.go).
//
// The package may import mounts, notify, sandbox, seccomp and sys. It knows no plan: its caller tells it which paths
// may be changed.
package wall
