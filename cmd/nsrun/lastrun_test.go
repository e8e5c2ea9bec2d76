//go:build linux

package main

import (
	"testing"
	"time"
)

// TestUnnoted: the newest session counts as that of the last command if the note of that is older, but not if only the
// clock was set back: else a verb without a session would take another command's.
func TestUnnoted(t *testing.T) {
	now := time.Date(2001, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		created, at time.Duration // from now
		want        bool
	}{
		{"noted", -2 * time.Minute, -time.Minute, false},
		{"not noted, such as on a full disk", -time.Minute, -2 * time.Minute, true},
		{"the clock was set back since", time.Hour, -time.Minute, false},
		{"the clock was set back since both", time.Hour, 2 * time.Hour, false},
	} {
		if got := unnoted(now.Add(c.created), now.Add(c.at), now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
