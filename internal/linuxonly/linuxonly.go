// Package linuxonly is what this module answers on other systems than Linux: its
// packages compile there, so that programs that import them do, and what takes Linux is
// an errors.ErrUnsupported.
//
// Files that need Linux begin with the line "//go:build linux" or end in _linux.go. What
// they export has its counterpart in the file stubs.go of their package, which package
// main in gen makes of them (make generate).
package linuxonly

import (
	"errors"
	"fmt"
	"os"
)

// Error is the error of a function that needs Linux. Its text is the function's name.
type Error string

func (e Error) Error() string { return string(e) + ": Linux only" }

// Is reports that the error is errors.ErrUnsupported.
func (e Error) Is(target error) bool { return target == errors.ErrUnsupported }

// Exit ends a command that needs Linux.
func Exit(name string) {
	fmt.Fprintln(os.Stderr, name+": Linux only")
	os.Exit(125)
}
