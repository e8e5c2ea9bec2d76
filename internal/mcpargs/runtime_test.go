package mcpargs

import (
	"os"
	"slices"
	"testing"
)

// TestHideRuntime: what is hidden comes back as it was. Other variables stay.
func TestHideRuntime(t *testing.T) {
	environ := []string{"GOGC=1=2", "GOMEMLIMIT=", "GOMEMLIMIT2=x", "GOMAXPROCS=many", "PATH=GOGC=", "GOGC"}
	got := HideRuntime(environ)
	want := []string{"\x01GOGC=1=2", "\x01GOMEMLIMIT=", "GOMEMLIMIT2=x", "\x01GOMAXPROCS=many", "PATH=GOGC=", "GOGC"}
	if !slices.Equal(got, want) || environ[0] != "GOGC=1=2" {
		t.Errorf("%q, and what was given: %q", got, environ)
	}
	for _, name := range runtimeNames {
		t.Setenv(name, "the test's own") // the end of the test restores it
		t.Setenv(hidden+name, "x="+name)
	}
	ShowRuntime()
	ShowRuntime() // there is no more to do
	for _, name := range runtimeNames {
		if v, ok := os.LookupEnv(hidden + name); os.Getenv(name) != "x="+name || ok {
			t.Errorf("%s=%q; %q is there: %v", name, os.Getenv(name), v, ok)
		}
	}
}
