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
// These are the differences from os/exec:
//
//   - The zero value shares nothing with the caller: all namespaces are new; there are no mounts, and so nothing to
//     execute until Mounts is set; there are no capabilities. The command gets only the three standard descriptors, and
//     a few harmless variables of the environment (see BaseEnv).
//   - If Path has no slash, it is looked up in the sandbox, along PATH of the command's environment. Start, not
//     Command, returns the error if it is not found.
//   - Dir is a path in the sandbox.
//   - Start returns nil only after the program was executed. A failure before that is an *Error that names the step and
//     the path; it wraps the errno of the system call, whichever process made the call.
//   - The command is the child of a small PID 1, which is Process. A signal sent to Process reaches the command.
//     SIGKILL, or the end of the command, ends everything in the sandbox, including background processes. So does the
//     end of the calling process, however it ends. To stop everything in the sandbox, use Cmd.Signal with SIGSTOP.
//
// If the command's exit status is not zero, or a signal ends it, Wait returns an *exec.ExitError, as in os/exec.
//
// # Where it runs
//
// The first Start executes a launcher (package internal/reexec): a small process that clones sandboxes. A clone of the
// program itself would copy its page tables, and hold its secrets. The launcher is an image of this package's own, not
// the program: no init function and no C constructor runs there. It keeps one sandbox ready whose namespaces exist
// already, for the next Start with the same namespaces and ids. That sandbox has a copy of the mounts, so it ends as
// soon as something is mounted or unmounted, and the next Start makes another one. Until Shutdown ends it, the launcher
// has what the program had at the first Start: root directory, resource limits, priorities, cgroup, ignored signals,
// and namespaces, whatever the calling thread has. After a change of effective ids or groups the next Start executes
// another one. The real ids of a command are the effective ones of the program.
//
// Any number of goroutines may start commands at the same time, with different settings.
//
// The package may import packages that describe a sandbox and build its Programs (features, mounts, internal/mountprog,
// internal/prog, internal/reexec, internal/sandbox, internal/seccomp, internal/sys). It knows nothing of projects,
// sessions or rules for the network; settings of a Cmd that only other packages of this module use are in
// internal/sandbox.
//
// seccomp.go has the system calls that no command may make (DefaultFilter).
//
// # Two Programs
//
// A sandbox runs two Programs (package internal/prog). The first one (first.go) makes the namespaces and waits on a
// socket. The second one (second.go) arrives over that socket and does the rest. To join namespaces, the first Program
// enters them and continues in a new process, because a PID or user namespace only takes effect in new processes. If
// the caller needs to know the namespaces before the set-up (JSON, id maps that others write), the clone makes all of
// them at once and waits.
//
// With a supervisor (supervisor.go) the second Program makes some sockets in the new network namespace while it has its
// capabilities there. Its last steps, before the command's own filters, are these. It enters a Landlock domain in which
// no TCP connect(2) is possible, whatever the supervisor answers. It installs the filter with the listener, which
// allows exactly one sendmsg(2), marked in flag bits that the kernel ignores. It sends listener and sockets with that
// call over the set-up socket. It installs a filter that refuses the mark. The caller of Start then owns the listener
// and the sockets.
package nsexec
