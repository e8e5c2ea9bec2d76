//go:build linux

package host

import "github.com/nsrun/nsrun/internal/plan"

// Hidden is what is found in home directories.
type Hidden struct {
	Secrets []string
	Linked  []plan.Link
	Absent  []plan.Absent
	Present map[string]bool // see Present
}

// FindHidden finds secrets, and what else commands have below a home directory.
func FindHidden(home string) Hidden {
	secrets, absent := Secrets(home)
	real, linked := ThroughLinks(secrets)
	return Hidden{real, ways(linked), absent, Present(home)}
}
