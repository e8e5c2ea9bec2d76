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
		"nobody, and other small negative ids":    {1<<32 - 1<<16, 1<<32 - 1},
	} {
		for _, m := range OwnRoot.Map() {
			first, last := uint64(m.Outside), uint64(m.Outside)+uint64(m.Count)-1
			if first <= r[1] && last >= r[0] {
				t.Errorf("%s: %d to %d, and ids from %d to %d are used", name, r[0], r[1], first, last)
			}
		}
	}
	if Count < 1<<16 {
		t.Errorf("%d ids, and programs expect %d", Count, 1<<16)
	}
	if Count > First || First+Count > 1<<31 {
		t.Error("usual ids have outer ids that are negative where an id has 32 bits")
	}
}

// TestMaps: files can have all of these owners, and an id outside is one of the sandbox's if and only if it is in the
// map.
func TestMaps(t *testing.T) {
	for _, r := range []Root{OwnRoot, HostRoot} {
		outer := map[uint32]uint32{}
		for _, id := range []uint32{0, 1, 1234, 1<<16 - 2, Count - 1, Count, 500000000, First, First + 1, 1<<31 - 1, 1<<32 - 1<<16, 1<<32 - 2} {
			found := 0
			for _, m := range r.Map() {
				if id-m.Inside < m.Count {
					found++
					outer[m.Outside+id-m.Inside] = id
				}
			}
			if found != 1 {
				t.Errorf("%v: id %d is in %d rows", r, id, found)
			}
		}
		if len(outer) != 12 {
			t.Errorf("%v: ids are the same outside: %v", r, outer)
		}
		for id := range outer {
			if !r.Has(id) {
				t.Errorf("%v: Has(%d) is false", r, id)
			}
		}
		for _, id := range []uint32{1, 1234, 65534, 500000000, First - 1, First + Count, 1<<32 - 2, 1<<32 - 1} {
			if r.Has(id) {
				t.Errorf("%v: Has(%d) is true", r, id)
			}
		}
		if r.Has(0) != (r == HostRoot) || r.Has(First) != (r == OwnRoot) {
			t.Errorf("%v: Has(0) is %v, and Has(First) %v", r, r.Has(0), r.Has(First))
		}
		if n := len(r.Map()); n > 5 {
			t.Errorf("%v: %d rows", r, n)
		}
	}
}
