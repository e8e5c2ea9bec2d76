package nsrun

import "github.com/nsrun/nsrun/internal/host"

// HiddenPaths are the places where people and programs keep secrets, whether they
// exist or not. An empty home leaves out those below it.
func HiddenPaths(home string) []string { return host.HiddenPaths(home) }
