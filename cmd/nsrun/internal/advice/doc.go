// Package advice says what can be done about an error: it returns a command to type, or the cause
// that the error itself does not name (nsrun already runs in a sandbox, the kernel lacks a call).
// Errors of the command carry their hint, see With; the package tells errors of the libraries apart
// by their types. It prints nothing.
package advice
