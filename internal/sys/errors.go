package sys

import (
	"errors"
	"os"
)

// Bare is err without the path or the call that package os adds, for errors that get one anyway.
func Bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	return err
}
