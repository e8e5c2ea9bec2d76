//go:build linux

package main

import (
	"flag"
	"strings"
	"testing"

	nsrunlib "github.com/nsrun/nsrun"
)

// TestPresetFlag: help and completions name all presets, and no others.
func TestPresetFlag(t *testing.T) {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	runFlags(fs, &runOptions{})
	names, _ := flag.UnquoteUsage(fs.Lookup("preset"))
	var want []string
	for _, p := range nsrunlib.Presets() {
		want = append(want, p.String())
	}
	if names != strings.Join(want, "|") {
		t.Errorf("--preset names %q, there are %q", names, want)
	}
}
