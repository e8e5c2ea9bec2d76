//go:build linux

package host

import (
	"errors"
	"os"
)

// Bare takes the path off an error that gets one anyway.
func Bare(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
