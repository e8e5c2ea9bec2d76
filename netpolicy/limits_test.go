//go:build linux

package netpolicy

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestLimits: what gets out is bounded by characters, whatever is asked for, and honest
// programs are not, after others have spent all that there was.
func TestLimits(t *testing.T) {
	short := func(i int) string { return fmt.Sprintf("%02x", i%256) }
	long := func(i int) string { return fmt.Sprintf("some-name-of-a-service-%d", i) }
	for _, c := range []struct {
		name     string
		of       func(int) string
		names    int // different ones, one after the other
		each     time.Duration
		free     bool // of the sandbox's choice
		spent    bool // at the beginning
		long     time.Duration
		min, max int // questions
	}{
		{"short names again and again", short, 256, 10 * time.Millisecond, true, false, time.Hour, 0, (freeChars + 3600*charsPerSecond) / leastChars},
		{"long names again and again", long, 100, 10 * time.Millisecond, true, false, time.Hour, 0, (freeChars + 3600*charsPerSecond) / leastChars},
		{"always other names", long, math.MaxInt, 10 * time.Millisecond, true, false, time.Hour, 0, (freeChars + 3600*charsPerSecond) / len(long(0))},
		{"always other names, at first", long, math.MaxInt, time.Millisecond, true, false, time.Second, 100, freeChars/len(long(0)) + 1},
		// A and AAAA of a name, as often as the cache lets them through.
		{"one name for a day", long, 1, keepLeast / 2, true, true, 24 * time.Hour, 24 * 3600 * 2 / 5, math.MaxInt},
		{"eight names for a day", long, 8, keepLeast / 16, true, true, 24 * time.Hour, 24*3600*16/5 - 160, math.MaxInt},
		{"a hundred names with a time to live", long, 100, 60 * time.Second / 200, true, false, 24 * time.Hour, 24 * 60 * 200, math.MaxInt},
		{"a name of a rule", long, 1, 2 * time.Millisecond, false, true, time.Minute, 60 * forwardsASec, math.MaxInt},
	} {
		var l limits
		start := time.Now()
		if c.spent {
			for i := range freeChars / leastChars {
				l.take(fmt.Sprint(100+i%100), 3, start)
			}
		}
		asked := 0
		for i := 0; time.Duration(i)*c.each < c.long; i++ {
			name := c.of(i % c.names)
			free := 0
			if c.free {
				free = len(name)
			}
			if l.take(name, free, start.Add(time.Duration(i+1)*c.each)) {
				asked++
			}
		}
		if asked < c.min || asked > c.max {
			t.Errorf("%s: %d questions, not from %d to %d", c.name, asked, c.min, c.max)
		}
		if n := len(l.seen) + len(l.before); n > 2*maxSeen {
			t.Errorf("%s: %d names are stored", c.name, n)
		}
	}
}

// TestTunnelWidth: the documentation has the same numbers as the constants.
func TestTunnelWidth(t *testing.T) {
	best, names := 0.0, 0.0
	for n := 1; n <= maxFree; n++ {
		names += math.Pow(39, float64(n))
		if n >= leastChars {
			best = max(best, (math.Log2(names+2*maxSeen)+1)/float64(n))
		}
	}
	if once, then := best*freeChars/8, best*charsPerSecond/8; math.Round(once/100) != 28 || math.Round(then) != 11 {
		t.Errorf("%.0f bytes at once, %.1f a second", once, then)
	}
}
