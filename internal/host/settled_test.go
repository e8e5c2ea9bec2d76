//go:build linux

package host

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSettled: which processes several searches in a row look at again. Each finds the same processes in the program's
// own network.
func TestSettled(t *testing.T) {
	type search struct {
		after   time.Duration // the one before
		network string
		mine    string
		trusted string // "all are asked": but for the kernel's own
	}
	const all = "all are asked"
	for _, c := range []struct {
		name     string
		searches []search
	}{
		{"twice in a row", []search{{0, "a", "1 2", all}, {time.Millisecond, "a", "", "9"}, {time.Second, "a", "1 2 3", all}, {time.Millisecond, "a", "", "1 2 9"}}},
		{"one that came", []search{{0, "a", "1", all}, {time.Second, "a", "1 2", all}, {time.Second, "a", "1 2", all}, {0, "a", "", "1 2 9"}}},
		{"one that went elsewhere", []search{{0, "a", "1 2", all}, {time.Second, "a", "2", all}, {time.Second, "a", "1 2", all}, {0, "a", "", "2 9"}}},
		{"too far apart", []search{{0, "a", "1", all}, {time.Minute, "a", "1", all}, {0, "a", "", "9"}}},
		{"another network", []search{{0, "a", "1", all}, {time.Second, "a", "1", all}, {0, "b", "1", all}, {0, "b", "", "9"}, {0, "a", "1", all}}},
		{"a network that is not known", []search{{0, "", "1", all}, {0, "", "1", all}, {time.Second, "", "1", all}}},
	} {
		var s settledProcesses
		now := time.Now()
		for i, q := range c.searches {
			now = now.Add(q.after)
			trusted, settle := s.search(q.network, now)
			var got string
			for i, pid := range trusted {
				got = strings.TrimSpace(got + " " + strconv.Itoa(pid))
				if i > 0 && trusted[i-1] >= pid || !trusted.has(strconv.Itoa(pid)) {
					t.Errorf("%s: not sorted: %v", c.name, trusted)
				}
			}
			if settle != nil {
				got = all
				var mine processes
				for _, pid := range slices.Backward(strings.Fields(q.mine)) {
					mine.add(pid)
				}
				settle(processes{9}, mine)
			}
			if got != q.trusted {
				t.Errorf("%s, search %d: %q, want %q", c.name, i, got, q.trusted)
			}
		}
	}
	// Of two at once one counts.
	var s settledProcesses
	now := time.Now()
	_, first := s.search("a", now)
	_, second := s.search("a", now.Add(time.Millisecond))
	mine := processes{1}
	first(nil, mine)
	second(nil, mine)
	if trusted, _ := s.search("a", now.Add(2*time.Millisecond)); len(trusted) != 0 {
		t.Errorf("a millisecond apart: %v", trusted)
	}
}
