// Package advice says what can be done about an error: a hint that can be typed, or the
// cause that the error itself does not name (this is a sandbox already, the kernel lacks a
// call). Errors of the command carry their hint, see With; those of the libraries are told
// apart by their types. It prints nothing.
package advice
