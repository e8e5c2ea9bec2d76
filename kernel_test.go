//go:build linux

package nsrun

import (
	"fmt"
	"syscall"
	"testing"
)

// TestLasting: that a process has too many files now says nothing about its next command.
func TestLasting(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{syscall.EPERM, true},
		{syscall.EACCES, true},
		{syscall.ENOSYS, true},
		{syscall.EOPNOTSUPP, true},
		{syscall.EINVAL, true},
		{syscall.EAGAIN, false},
		{syscall.EMFILE, false},
		{syscall.ENOMEM, false},
	} {
		if c.err != nil {
			c.err = fmt.Errorf("load: %w", c.err)
		}
		if got := lasting(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
