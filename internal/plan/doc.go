// Package plan decides what commands see of a host: what lies over what, and what each path is there. Build is a pure
// function. It takes Facts, which package host and the Runner found out, and a Policy, which is what Config and Request
// say, and returns mounts, an environment and a working directory.
//
// It does no input or output, and imports nothing that does (os, syscall, golang.org/x/sys/unix): only mounts and
// internal/confine for their vocabulary, and internal/escape, internal/pathrule and internal/paths. So tests need no
// kernel, and explaining a command runs the same code as starting it. Package nsrun
// gathers the facts and uses the mounts.
//
// layer.go is the table of what lies over what, which a property test compares with random plans. build.go makes the
// mounts of each layer, safeenv.go says which variables of the environment are kept from commands, and confine.go is
// for commands without namespaces.
//
// # The home directory
//
// It is shown through an overlay. Package mountprog makes one more lower layer in front of it, in memory, for each
// command. That layer contains the playground's mount point, which must not be created on the host; whiteouts for
// secrets, whether they exist or not, and for nsrun's own directories; and copies of settings without their secrets
// (package harmless). If such an overlay is not possible, the home directory is mirrored. With a home layer (package
// homelayer) the overlay has an upper directory that belongs to the project, and caches need no overlays of their own.
// Without a home layer, caches get overlays that are removed after the run.
//
// Build does not check whether the working directory exists: an earlier command of the session may have made it, so
// chdir(2) in the sandbox finds out.
package plan
