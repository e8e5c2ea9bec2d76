//go:build linux

package project

import (
	"errors"
	"testing"

	"github.com/nsrun/nsrun/internal/homedir"
	"golang.org/x/sys/unix"
)

// TestUnmapped: where the database cannot be mapped into memory, the error says why, and where it can be.
func TestUnmapped(t *testing.T) {
	for _, errno := range []error{unix.EINVAL, unix.ENODEV} {
		if err := refused(errno); !errors.Is(err, errUnmapped) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := refused(unix.EACCES); !errors.Is(err, unix.EACCES) || errors.Is(err, errUnmapped) {
		t.Error(err)
	}
	const want = "files on this file system cannot be mapped into memory (try: export XDG_STATE_HOME=DIR, with a directory on another file system, such as ext4)"
	if err := homedir.OnAnother(errUnmapped, "XDG_STATE_HOME"); err.Error() != want || !errors.Is(err, errUnmapped) {
		t.Error(err)
	}
	if err := homedir.OnAnother(errUnmapped, ""); err != errUnmapped {
		t.Error(err)
	}
}
