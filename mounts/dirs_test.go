//go:build linux

package mounts

import (
	"errors"
	"testing"
)

// TestDirs: what an overlay adds is relative to it, and one lower directory is enough.
func TestDirs(t *testing.T) {
	with := func(dirs ...string) Plan {
		return Plan{{Kind: KindOverlay, Target: "/home/me", Lower: []string{"/home/me"}, ReadOnly: true, Dirs: dirs}}
	}
	if err := with("playground", "a/b").Validate(); err != nil {
		t.Error(err)
	}
	if err := with().Validate(); !errors.Is(err, ErrLayers) {
		t.Errorf("none: %v", err)
	}
	for _, bad := range []string{"", ".", "..", "/a", "../a", "a/../b", "a/", "a\x00"} {
		if err := with(bad).Validate(); !errors.Is(err, ErrHide) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
