// Package nsexec runs a command in new namespaces. It is shaped like os/exec:
//
//	cmd := nsexec.Command("make", "test")
//	cmd.Mounts = mounts.Plan{
//		mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc"),
//		mounts.Bind("/home/me/src", "/home/me/src"),
//	}
//	cmd.Dir = "/home/me/src"
//	out, err := cmd.CombinedOutput()
//
// The differences to os/exec are:
//
//   - The zero value shares nothing with the caller: all namespaces are new, no
//     mount is there (so nothing to execute, until Mounts says what), no capability
//     is left, no descriptor but the three standard ones is passed, and only a few
//     harmless variables of the environment (see BaseEnv).
//   - Path is looked up in the sandbox, along PATH of the command's environment,
//     when it has no slash; Start, not Command, says that it was not found.
//   - Dir is a path of the sandbox.
//   - Start returns nil only after the program was executed. What goes wrong
//     before is an *Error that names the step and the path; its cause is the errno
//     of the system call, whichever process made it.
//   - The command is the child of a small PID 1, which is Process. A signal sent
//     to Process reaches the command; SIGKILL, and the command's end, end
//     everything in the sandbox, background processes included. So does the end of
//     the calling process, however it comes about. SIGSTOP needs Cmd.Signal, which
//     stops everything in the sandbox.
//
// A command that exits badly is an *exec.ExitError, as always.
//
// # Where it runs
//
// The first Start executes a launcher (package internal/reexec): a small process that
// clones sandboxes, because a clone of the program would copy its page tables, and hold
// its secrets. The launcher is an image of this package's own, not the program: no init
// function and no C constructor runs there. It keeps one sandbox ready whose
// namespaces exist already, for the next Start with the same namespaces and ids.
// The launcher has the credentials, the root directory, the limits and the control
// group that the program had at the first Start; Shutdown ends it.
//
// Many commands may be started at once, from any goroutine, with different
// settings.
//
// The package may import what describes a sandbox and what its Programs are made of (features, mounts, internal/mountprog,
// internal/prog, internal/reexec, internal/sandbox, internal/seccomp, internal/sys). It knows nothing of projects, sessions or rules for the
// network; what only other packages of this module ask of a Cmd is in internal/sandbox.
//
// # Two Programs
//
// A sandbox runs two Programs (package internal/prog). The first one (first.go) makes the namespaces and waits on a socket;
// the second one (second.go), which comes over that socket, does the rest. To join namespaces, the first Program enters
// them and continues in a new process, because a PID or user namespace only takes effect in new processes. If somebody
// wants to know about the namespaces before the set-up (JSON, id maps that others write), the clone makes all of them at
// once and waits.
//
// With a supervisor (supervisor.go) the second Program makes some sockets in the new network namespace while it has its
// capabilities there. Its last steps, before the command's own filters, are these. It enters a Landlock domain in which no
// TCP connect(2) is possible, whatever the supervisor answers; installs the filter with the listener, which allows exactly
// one sendmsg(2), marked in flag bits that the kernel ignores; sends listener and sockets with that call over the set-up
// socket; and installs a filter that refuses the mark. The caller of Start owns what was sent.
package nsexec
