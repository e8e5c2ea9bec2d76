//go:build linux

package renames

import (
	"os"
	"slices"
	"testing"
)

// TestRightsOf: a process's rights are those that the kernel tells.
func TestRightsOf(t *testing.T) {
	by, ok := rightsOf(uint32(os.Getpid()))
	user, group := ids()
	groups, err := os.Getgroups()
	if !ok || err != nil || by.user != user || by.group != group || !slices.Equal(by.groups, groups) {
		t.Errorf("%v, %+v, want %d, %d, %v (%v)", ok, by, user, group, groups, err)
	}
	if by.owners != (os.Geteuid() == 0) {
		t.Errorf("capabilities over files of all owners: %v", by.owners)
	}
	if _, ok := rightsOf(1 << 30); ok {
		t.Error("a process that does not exist has rights")
	}
}

// TestAround: a path begins with an overlay only if that is one of its directories, and the innermost one counts.
func TestAround(t *testing.T) {
	o := overlays{1: "/a", 2: "/a/b", 3: "/c d"}
	for path, want := range map[string]string{
		"/a/x": "/a", "/a/b/x": "/a/b", "/a/bc/x": "/a", "/ab/x": "", "/c d/e/": "/c d", "/a": "", "x/a": "", "": "",
	} {
		if got := o.around(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
