package nsrun

import (
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
)

// SafeEnv returns env without the variables that hold secrets, lead to services that have secrets, or make programs run
// other code. It recognizes secrets by the name of the variable, and by the form of the value.
func SafeEnv(env []string) []string { return plan.SafeEnv(env) }

// HiddenPaths are the places where people and programs keep secrets, whether they
// exist or not. An empty home leaves out those below it.
func HiddenPaths(home string) []string { return host.HiddenPaths(home) }
