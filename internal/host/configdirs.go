//go:build linux

package host

import (
	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/plan"
)

// SystemConfigDir is the directory of the system's configuration.
const SystemConfigDir = "/etc/nsrun"

// ConfigDir is the directory of the user's configuration; empty: there is none.
func ConfigDir(home string) string { return homedir.Own("XDG_CONFIG_HOME", home, ".config") }

func ConfigDirs(home string) (list []plan.Own) {
	for _, dir := range [...]string{ConfigDir(home), SystemConfigDir} {
		if dir != "" {
			list = append(list, plan.Own{Dir: dir, At: Nearest(dir)})
		}
	}
	return list
}
