// Package plan decides what commands see of a host: what lies over what, and what each path is there. Build is a pure
// function from Facts, which package host and the Runner found out, and a Policy, which is what Config and Request say,
// to mounts, an environment and a working directory.
//
// It does no input or output, and imports nothing that does (os, syscall, golang.org/x/sys/unix), only mounts for its
// vocabulary: so it is tested without a kernel, and whoever explains a command runs the same code as whoever starts it.
// What becomes of the mounts, and in which order the facts are gathered, is for package nsrun.
package plan
