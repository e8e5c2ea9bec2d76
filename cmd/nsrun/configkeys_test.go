//go:build linux

package main

import (
	"slices"
	"testing"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/config"
)

// Files can name the presets that there are, those without a network first.
func TestConfigPresets(t *testing.T) {
	i := slices.IndexFunc(config.Keys[:], func(k config.Key) bool { return k.Name == "presets" })
	var plain, networks []string
	for _, p := range nsrunlib.Presets() {
		if len(p.Rules()) > 0 {
			networks = append(networks, p.String())
		} else {
			plain = append(plain, p.String())
		}
	}
	if want := append(plain, networks...); !slices.Equal(config.Keys[i].Words, want) {
		t.Errorf("%q, want %q", config.Keys[i].Words, want)
	}
}
