package netpolicy

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fill makes up to 256 bytes random. Not by crypto/rand: a dozen packages are initialised with
// it at each start.
func fill(b []byte) error {
	if n, err := unix.Getrandom(b, 0); err != nil || n != len(b) { // so many come all at once
		return errors.New("getrandom gives nothing")
	}
	return nil
}
