//go:build linux

package netpolicy

import "time"

// SetClock makes a table use another clock.
func (t *Table) SetClock(now func() time.Duration) { t.clock = now }
