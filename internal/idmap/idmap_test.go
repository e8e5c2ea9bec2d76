//go:build linux

package idmap

import "testing"

// TestIDs: nobody else uses these ids. A command can become each of them, and would own files outside that have such an
// id.
func TestIDs(t *testing.T) {
	for name, r := range map[string][2]uint64{ // the first and the last id
		"users, systems and containers (systemd)": {0, 1879048191},
		"users of a domain (sssd)":                {200000, 2000199999},
		"images of others (systemd 258)":          {2147352576, 2147418111},
		"negative where an id has 32 bits":        {1 << 31, 1<<32 - 1},
	} {
		if First <= r[1] && First+Count > r[0] {
			t.Errorf("%s: %d to %d, and ids from %d to %d are used", name, r[0], r[1], First, First+Count-1)
		}
	}
	if Count < 1<<16 {
		t.Errorf("%d ids, and programs expect %d", Count, 1<<16)
	}
}
