//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOverlooked: a directory without permission to list it holds changes back. EIO, EMFILE or ENOMEM while listing
// ends the walk.
func TestOverlooked(t *testing.T) {
	for _, c := range []struct {
		errs   []error
		failed error
	}{
		{[]error{nil}, nil},
		{[]error{unix.EACCES, unix.EPERM}, nil},
		{[]error{unix.EACCES, nil, unix.EIO, unix.EMFILE}, unix.EIO},
		{[]error{fmt.Errorf("open: %w", unix.EMFILE)}, unix.EMFILE},
		{[]error{unix.ENOMEM}, unix.ENOMEM},
	} {
		f := &runsFinder{}
		v := &runsView{f: f}
		for _, err := range c.errs {
			v.overlook("/p", err)
		}
		if (f.blind != nil) != (c.errs[0] != nil) || !errors.Is(f.failed, c.failed) {
			t.Errorf("%v: blind %v, failed %v", c.errs, f.blind, f.failed)
		}
	}
}
