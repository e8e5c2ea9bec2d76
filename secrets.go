package nsrun

import (
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
)

// SafeEnv is env without the variables that hold secrets, lead to services that
// do, or make programs run other code than they would. Secrets are known by the name of the
// variable, and in values by what they look like.
func SafeEnv(env []string) []string { return plan.SafeEnv(env) }

// HiddenPaths are the places where people and programs keep secrets, whether they
// exist or not. An empty home leaves out those below it.
func HiddenPaths(home string) []string { return host.HiddenPaths(home) }
