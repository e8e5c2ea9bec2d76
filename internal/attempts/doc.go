// Package attempts observes which system calls of a command fail because of its sandbox, and what its processes do
// after that. It imports internal/notify, internal/sandbox, internal/seccomp, internal/escape and internal/sys. It does
// not know the policy: its caller decides whether the policy was the reason, and which refusal made a command fail.
//
// # Refusals
//
// A seccomp filter stops calls before the kernel carries them out, and reports each to an Observer: calls that take a
// path, connect a socket, send a signal to a process by its number, or are refused by another filter (Observer.Deny).
// The Observer finds out, in the sandbox itself, whether the call is going to fail, and calls Observer.Tell if so. Then
// the kernel carries out the call, with the arguments as they are then. The Observer answers only calls that Deny
// refuses, and passes other calls that need an answer on to another Observer (package renames). quick.go answers calls
// that nothing refuses without the Go scheduler; quickpath.go finds out which these are.
//
// # What happens after a refusal
//
// Many programs can do without what they were refused. So that the caller can find out which refusal made a command
// fail, the filter also stops exit_group(2), and write(2) and writev(2) to descriptor 2. While Follower.Follows says
// that a process matters, the Follower is told
//
//   - which paths the process uses, and whether the calls fail (Tried);
//   - that it executes another program (Executed);
//   - what it writes to standard error (Said): a process that changes the text meanwhile deceives only about itself;
//   - that it ends, and with which status (Ended). If a signal kills the process, the Follower is not told.
//
// blame.go of package nsrun is that Follower.
//
// # Messages
//
// Messages observe only what processes write to standard error. That costs far less.
package attempts
