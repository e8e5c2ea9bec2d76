// Package advice says what to do about an error. A hint is a command to type, or a cause that the error does not name:
// nsrun already runs in a sandbox, or the kernel lacks a call. The command adds hints to its own errors (With); for the
// libraries' errors, this package chooses a hint by their type. It prints nothing.
package advice
