//go:build linux

// Package prerun is the code that the nsrun command runs before the Go runtime starts.
//
// Starting the runtime takes about as long as everything that bubblewrap does, and most of bubblewrap's command lines
// do not need it: parsing, laying out a Program and cloning can be done as soon as the kernel has loaded the file. So
// the entry point of the nsrun command (the linker's -E nsrun_early, see the Makefile) comes here first. Function run
// handles common command lines completely. Everything else (an option that it does not know, a mistake, a step that
// fails) it leaves to main, which starts from the beginning and can report errors. run leaves nothing behind that main
// would not do again. Meanwhile function begin makes the namespaces for main.
//
// A program that is linked without the entry point does the same, a little slower. So does one that is built with a
// version of Go that was not tried: a build constraint then leaves out the files with this code and the entry point,
// and the Makefile does not name it. To try a new version, widen the constraint, and run .ci/toolchains.
//
// It may import what lays out a sandbox (bwrap, dropin, mounts, nsexec, prog, reexec, sandbox) and secureexec. Only the
// nsrun command uses it, because a library has no entry point. It has no parser, no policy and no set-up of its own.
//
// # How Go runs without its runtime
//
// Functions are ordinary ones: the entry point makes a g whose stack has no limit, so that none of them tries to grow
// it. They must not allocate, panic, use maps, channels, goroutines or defer, or call anything that needs the runtime;
// they make system calls by RawSyscall. The linker must be able to initialize the package variables. One test runs all
// of it with the runtime, and counts allocations. Another one reads in the linked program which functions of the
// runtime the entry point reaches.
//
// # The clone of other command lines
//
// Function begin guesses from the arguments which namespaces are needed, and clones before the runtime starts. If the
// guess was wrong, nsrun closes the clone's socket, and the clone ends.
//
// For `nsrun run` the clone waits while nsrun reads flags and looks at the host. Meanwhile it runs a Program
// (nsexec/ahead.go) that marks names below the home directory that are almost always hidden. The second Program finds
// these marks among its descriptors, removes those that the policy shows, and adds those that are missing
// (internal/mountprog/marks.go). So what is hidden does not depend on the guess.
//
// For root, cmd/nsrun/ahead.go guesses the command's user and group ids, and nsexec/ahead.go writes the maps. The clone
// keeps those capabilities in its bounding set that root's command can have in a session. For a command without them,
// the second Program removes them. A command with other ids gets another sandbox.
package prerun
