//go:build linux

package host

import (
	"testing"
	"time"
)

// TestClockSetBackMeanwhile: what a command writes is new, also if the clock was set back while it ran.
func TestClockSetBackMeanwhile(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1_000_000+s, 0) }
	for _, c := range []struct {
		wall, end int64
		ran       time.Duration
		want      int64
	}{
		{0, 60, time.Minute, 0},
		{0, -3600, time.Minute, -3660},
		{0, 3600, time.Minute, 0},
	} {
		if got := start(at(c.wall), at(c.end), c.ran); !got.Equal(at(c.want).Add(-20 * time.Millisecond)) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
