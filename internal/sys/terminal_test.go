//go:build linux

package sys_test

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
)

// TestFromBackground: the signal that stops a process in the background is blocked while f runs, and nothing is left.
func TestFromBackground(t *testing.T) {
	ttou := func(set string) bool {
		b, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(set + `:\s+[0-9a-f]{10}([0-9a-f])`).FindSubmatch(b)
		if m == nil {
			t.Fatalf("no %s in %s", set, b)
		}
		return m[1][0]&2 != 0 // SIGTTOU is 22
	}
	want := errors.New("wanted")
	err := sys.FromBackground(func() error {
		if !ttou("SigBlk") {
			t.Error("SIGTTOU is not blocked")
		}
		return want
	})
	if !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
	if ttou("SigBlk") || ttou("SigIgn") {
		t.Error("SIGTTOU is blocked or ignored afterwards")
	}
}
