// Package linuxonly has the error that this module returns on systems other than Linux. The packages compile there, so
// that programs that import them compile too, and functions that need Linux return an errors.ErrUnsupported. Every
// package may import it; it imports nothing of this module.
//
// A file that needs Linux begins with the line "//go:build linux" or ends in _linux.go. What it exports has a
// counterpart in the file stubs.go of its package, which the program in gen writes (make stubs).
package linuxonly

import (
	"errors"
	"fmt"
	"os"
)

// Error is the error of a function that needs Linux. Its text is the function's name.
type Error string

func (e Error) Error() string { return string(e) + ": Linux only" }

func (e Error) Is(target error) bool { return target == errors.ErrUnsupported }

// Exit ends a command that needs Linux.
func Exit(name string) {
	fmt.Fprintln(os.Stderr, name+": Linux only")
	os.Exit(125)
}
