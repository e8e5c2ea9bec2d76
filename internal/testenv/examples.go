//go:build linux

package testenv

import (
	"flag"
	"testing"
)

// Examples is what a package's TestExamples calls whose examples need something that not every machine
// or user has: an example cannot skip itself. Need skips the test where it is missing, as any test does, and then
// the examples are left out too: they run after the tests.
func Examples(t testing.TB, need func()) {
	t.Helper()
	defer func() {
		if t.Skipped() {
			leaveOutExamples(t)
		}
	}()
	need()
}

func leaveOutExamples(t testing.TB) {
	pattern := "^Example"
	if was := flag.Lookup("test.skip").Value.String(); was != "" {
		pattern = was + "|" + pattern
	}
	if err := flag.Set("test.skip", pattern); err != nil {
		t.Error(err)
	}
}

var ownState bool

// OwnState has sessions and playgrounds of this run kept in a directory of its own, where tests do not name
// another one. A TestMain calls it before Main.
func OwnState() { ownState = true }
