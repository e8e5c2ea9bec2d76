// Package attempts observes which system calls of a command fail because of its sandbox: a seccomp filter tells of calls that
// take a path, connect a socket, or are refused by another filter, before the kernel does them, and the Observer looks
// in the sandbox itself whether that is going to fail. It imports internal/notify, internal/sandbox, internal/seccomp,
// internal/escape and internal/sys. It decides nothing but what the filter of refused calls says, and does not know the
// policy: whether that was the reason its caller decides.
package attempts
