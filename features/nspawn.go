//go:build linux

package features

import (
	"os"
	"path"
	"strings"
)

// systemd-nspawn has a filter of its own, and an option that allows more calls.

// nspawned reports whether systemd-nspawn started this machine's processes, which see its name in this file.
func nspawned(root string) bool {
	b, _ := os.ReadFile(path.Join(root, "run/host/container-manager"))
	return strings.TrimSpace(string(b)) == "systemd-nspawn"
}

// nspawnRemedy says how systemd-nspawn allows the calls of a feature that only the filter refuses. Empty: the feature
// has none.
func nspawnRemedy(e *entry) string {
	names := ""
	switch e.Name {
	case SessionKeys:
		names = "@keyring"
	case LandlockScopes, LandlockTCP: // all calls of Landlock
		names = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"
	default:
		if e.Needs != callAllowed {
			return ""
		}
		for _, c := range e.calls {
			names += " " + c.name
		}
	}
	if names = strings.TrimSpace(names); names == "" {
		return ""
	}
	return "systemd-nspawn --system-call-filter='" + names + "'"
}
