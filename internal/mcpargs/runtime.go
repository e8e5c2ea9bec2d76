package mcpargs

import (
	"os"
	"strings"
)

// The environment of nsrun-mcp is for commands, and its variables for the Go runtime are those of Go programs in the
// sandbox. They should neither slow the server down nor end it, as a malformed GOMEMLIMIT does. So nsrun passes them
// under other names, and nsrun-mcp gives them back once its own runtime has started.

var runtimeNames = [...]string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC"}

const hidden = "\x01" // no other variable's name begins with it

// HideRuntime returns an environment in which the variables for the Go runtime have other names.
func HideRuntime(environ []string) []string {
	to := make([]string, len(environ))
	for i, kv := range environ {
		for _, name := range runtimeNames {
			if strings.HasPrefix(kv, name+"=") {
				kv = hidden + kv
				break
			}
		}
		to[i] = kv
	}
	return to
}

// ShowRuntime gives this process's variables back the names that HideRuntime took from them.
func ShowRuntime() {
	for _, name := range runtimeNames {
		if value, ok := os.LookupEnv(hidden + name); ok {
			_ = os.Unsetenv(hidden + name)
			_ = os.Setenv(name, value)
		}
	}
}
