//go:build linux

package homedir

import (
	"os"
	"path/filepath"
)

// Own is nsrun's directory in the base directory that a variable names, or that is at a path below a home directory if
// it names none (XDG Base Directory Specification). Empty: there is no home directory.
func Own(variable, home, otherwise string) string {
	base := os.Getenv(variable)
	if !filepath.IsAbs(base) { // the specification says to ignore others
		if home == "" {
			return ""
		}
		base = filepath.Join(home, otherwise)
	}
	return filepath.Join(base, "nsrun")
}

// State, Data and Cache are where nsrun keeps sessions, a registry with the playgrounds, and copies.
func State(home string) string { return Own("XDG_STATE_HOME", home, ".local/state") }
func Data(home string) string  { return Own("XDG_DATA_HOME", home, ".local/share") }
func Cache(home string) string { return Own("XDG_CACHE_HOME", home, ".cache") }
