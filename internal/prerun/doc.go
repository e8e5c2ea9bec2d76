//go:build linux

// Package prerun is what the nsrun command does before the Go runtime starts.
//
// Starting the runtime takes a process about as long as bubblewrap takes for all it does, and most of bubblewrap's command
// lines need nothing of it: parsing, laying out a Program and cloning can be done with what is there when the kernel has
// loaded the file. So the entry point of the nsrun command (the linker's -E nsrun_early, see the Makefile) comes here
// first. Function run does common command lines as a whole. What is not common (an option that is not known here, a
// mistake, a step that fails) is left to the usual way, from the beginning: it can say what is wrong. Nothing was done
// then, or nothing that is not done again. For that way function begin makes the namespaces meanwhile.
//
// A program that is linked without the entry point does the same, a little slower. So does one that is built with a
// version of Go that was not tried: the files that run here have a build constraint, without them there is no entry
// point, and the Makefile does not name it. To try a new version, widen the constraint, and run .ci/toolchains.
//
// It may import what lays out a sandbox (bwrap, dropin, mounts, nsexec, prog, reexec), and is imported by the nsrun
// command alone: no library begins like this. It has no parser, no policy and no set-up of its own.
//
// # How Go runs without its runtime
//
// Functions are ordinary ones: the entry point makes a g whose stack has no limit, so that none of them tries to grow it.
// What they must not do is allocate, panic, use maps, channels, goroutines or defer, or call anything that asks the runtime
// for something: system calls are RawSyscall. Package variables must be such that the linker can fill them in. A test runs
// all of it where the runtime is there, and counts allocations; another one reads in the linked program what functions of
// the runtime the entry point reaches.
//
// # The clone of other command lines
//
// Function begin guesses from the arguments which namespaces are needed, and clones before the runtime starts. If the
// guess was wrong, nsrun closes the clone's socket, and the clone ends.
//
// For `nsrun run` the clone waits while nsrun reads flags and looks at the host. An ordinary user's gets a Program for that
// time (nsexec/ahead.go): it marks names below the home directory that are almost always hidden. The second Program finds
// these marks among its descriptors, removes those that the policy shows, and adds those that are missing
// (internal/mountprog/marks.go). So what is hidden does not depend on the guess.
package prerun
