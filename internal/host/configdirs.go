//go:build linux

package host

// SystemConfigDir is where the configuration of the system is.
const SystemConfigDir = "/etc/nsrun"

// ConfigDir is where the configuration of the user is, empty if there is no place for it.
func ConfigDir(home string) string { return ownDir("XDG_CONFIG_HOME", home, ".config") }
