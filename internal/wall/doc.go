//go:build linux

// Package wall is the rest of what namespaces and mounts would do, for commands that run without them (sandbox.Confinement):
// Landlock knows nothing of calls that change a file's mode, owner, times or attributes, of most sockets, of System V IPC,
// and of calls that change how other processes of the same user run.
//
// A filter refuses what a command has no need of (Filter). Modes, owners, times and attributes it needs all the time: so a
// Deputy is told of each such call (seccomp_unotify(2)), opens the file that it means, and makes the change itself if the
// file is one that the command may write to, without any privilege. The kernel does nothing for such a call, so that it does
// not matter what the command changes in its memory meanwhile. In the same way the Deputy makes TCP and
// unix sockets with which the programs of one command reach each other (sockets.go, unix.go), and opens terminals and shared
// memory (names.go).
//
// The package may import notify, sandbox, seccomp and sys. It knows no plan: somebody tells it which paths may be changed.
package wall
