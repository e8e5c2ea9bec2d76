//go:build linux

package attempts

import "testing"

// TestCounted: a number that the sandbox can have given to a process is never taken for one of the host's, also if the
// host has such a process.
func TestCounted(t *testing.T) {
	for _, c := range []struct {
		number, lowest int
		made           uint64
		want           bool
	}{
		{number: 2, lowest: 2, want: true},
		{number: 10_000, lowest: 2},
		{number: 10_000, lowest: 2, made: 10_000, want: true},
		{number: 23_185, lowest: 23_185, want: true}, // the command itself
		{number: 23_184, lowest: 23_185, want: true}, // what made it
		{number: 23_000, lowest: 23_185},
		{number: 23_400, lowest: 23_185},
		{number: 23_400, lowest: 23_185, made: 200, want: true},
		{number: 23_000, lowest: 23_185, made: 200},
		{number: 400, lowest: 30_000, made: 40_000, want: true}, // the kernel has begun again
		{number: 7, lowest: 23_185, want: true},                 // in a namespace of the command's own
		{number: 400, lowest: 0, made: 100},                     // the command's own number is not known
	} {
		if got := counted(c.number, c.lowest, c.made); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
