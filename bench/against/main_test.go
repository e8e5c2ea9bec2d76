package main

import (
	"strings"
	"testing"
)

// TestTable: what benchmarks print is understood, and compared line by line.
func TestTable(t *testing.T) {
	older := []string{`medians of 5 alternating runs, as uid 0
  true                                  1.000 ms   p95    0.843   0.142
  4 GiB                                 2.000 ms   p95    7.587   0.473
  overlay, registry, watcher     8.00 ms   +5.61 ms      5.08 ms   +4.37 ms   (at most +3.5 ms)
  requests   direct             4000.0 requests/s   1.000 of direct
  nsexec 702/s   bwrap 349/s   2.01 times
  gone                                  1.000 ms
medians of 5 alternating runs, as uid 1
  true                                  3.000 ms
`, `medians of 5 alternating runs, as uid 0
  true                                  2.000 ms
  4 GiB                                 2.000 ms
`, `medians of 5 alternating runs, as uid 0
  true                                  9.000 ms
  4 GiB                                 4.000 ms
`}
	newer := []string{`medians of 5 alternating runs, as uid 0
  true                                  1.000 ms
  4 GiB                                 3.000 ms
  overlay, registry, watcher     4.00 ms
  requests   direct             2000.0 requests/s
  nsexec 702/s   bwrap 349/s   2.01 times
medians of 5 alternating runs, as uid 1
  true                                  6.000 ms
`, `medians of 5 alternating runs, as uid 0
  true                                  2.000 ms
  4 GiB                                 3.000 ms
`, `medians of 5 alternating runs, as uid 0
  true                                  9.000 ms
  4 GiB                                 6.000 ms
`}
	var tab table
	for i := range older {
		tab.add(0, older[i])
		tab.add(1, newer[i])
	}
	var b strings.Builder
	tab.print(&b, 3)
	const want = `medians of 3 alternating rounds: older, newer, newer to older
medians of 5 alternating runs, as uid 0
  true                                   2.000      2.000 ms          1.000
  4 GiB                                  2.000      3.000 ms          1.500
  overlay, registry, watcher             8.000      4.000 ms          0.500
  requests direct                     4000.000   2000.000 requests/s  2.000
  nsexec                               702.000    702.000 /s          1.000
  gone                               is not measured by both
medians of 5 alternating runs, as uid 1
  true                                   3.000      6.000 ms          2.000
`
	if b.String() != want {
		t.Errorf("got\n%s\nnot\n%s", b.String(), want)
	}
}
