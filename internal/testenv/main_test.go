//go:build linux

package testenv

import "testing"

func TestMain(m *testing.M) { Main(m) }

// TestTurn: where there are two runs each case is one's, and where there is one run all cases are its.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		name, once, asUser, long string
		all                      bool
	}{
		{"root's first run, or a user's second one", "", "1", "", false},
		{"NSRUN_TEST_ONCE", "1", "", "", true},
		{"a user's only run", "", "", "", !Root()},
		{"NSRUN_LONG", "", "1", "1", true},
	} {
		t.Setenv(onceEnv, c.once)
		t.Setenv(asUserEnv, c.asUser)
		t.Setenv("NSRUN_LONG", c.long)
		want := 1
		if c.all {
			want = 2
		}
		got := 0
		for i := range 2 {
			if Turn(i) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d of 2 cases are run, want %d", c.name, got, want)
		}
	}
}
