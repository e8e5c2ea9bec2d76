// Package reexec runs Programs (package prog) in a clone of a small process. It imports internal/prog, and does not
// know what a Program is for.
//
// A program that embeds nsrun is never cloned, because its heap can have gigabytes, with secrets in
// it. Nor is it executed again, because packages, C constructors and hosts that load a library
// would then run their own code. Instead it executes an image of ours: a static file of a few
// kilobytes, made of this package and nothing else (see gen), which has no Go runtime, one thread,
// and no environment. As launcher the image clones sandboxes:
//
//	program                     launcher                    clone
//	  | block, [socket, status] ->|                           |
//	  |                           | clone3(CLONE_PARENT) ---->|
//	  |<------------ status: pid -|                           |
//	  | block, [0, 1, 2, …] --------------------------------->| socket
//	  |<-------------------------------------- status: started|
//	  |<----------------------------------------- status: exit|
//	  |<------------------------------------------------ wait4|
//
// Each message on the launcher's socket is one laid-out Program with two descriptors: the clone's end of a socket on
// which it receives the rest of its work, and the write end of its status pipe. Because of CLONE_PARENT the clone is a
// child of the program: the program waits for it, and it dies with the program, not with the launcher.
//
// The nsrun command is small itself. It is its own launcher (Spawn), with the same code.
//
// # The image
//
// The first Start executes the image from a sealed file in memory (memfd_create(2)). If the kernel (vm.memfd_noexec) or
// a security module does not execute such files, it uses a file without a name (start.go). `go run
// ./internal/reexec/gen` builds the image, and a test compares its bytes.
//
// The kernel kills the launcher when the thread that started it ends (PR_SET_PDEATHSIG), so one goroutine of the
// program keeps that thread.
//
// With an argument the image runs Programs itself (perform.go): one, or as a Worker one after the other, for what takes
// another user namespace than the program's.
//
// # PID 1
//
// The clone itself becomes PID 1 of the sandbox (pid1.go), in a loop around rt_sigtimedwait(2) and wait4(2). It has no
// capability and cannot be traced. (With bubblewrap's command line it can be traced, and then has the command's seccomp
// filters.) It holds the status pipe, and other descriptors that it was told to hold, such as lock files. It reports
// the command's wait status and exits with the command; the kernel then ends the other processes. It enforces the time
// limit: SIGTERM to the command, then SIGKILL to all. SIGSTOP reaches it as a queued signal with a value: the plain
// signal would stop PID 1 before it could pass it on. So does SIGCONT, because the plain signal would overtake that.
//
// The command's process is made with CLONE_VM|CLONE_VFORK, so that no memory is copied.
//
// Without namespaces the command's parent, the reaper, does the same. It ends the sandbox by kill(2) with -1, which
// reaches its own Landlock domain only; before it forks it makes sure that it cannot signal its parent. In the cases in
// which PID 1 would be killed, PR_SET_PDEATHSIG sends the reaper a signal.
package reexec
