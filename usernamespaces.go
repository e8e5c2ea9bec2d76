//go:build linux

package nsrun

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/cgroups"
)

// userNamespaces reports whether commands can make user namespaces.
func (c *Config) userNamespaces() bool { return c.UserNamespaces || c.has(BrowserPreset) }

const opUserns = "allow user namespaces"

var (
	errUsernsRoot     = errors.New("root's commands have no capabilities, and without them the kernel lets nobody map id 0: run nsrun as an ordinary user")
	errUsernsLandlock = errors.New("they need the backend native, whose mounts the kernel locks in them")
)

// allowNamespaces lets the command make user namespaces, and use what belongs to them as far as it gains nothing by
// that; inPlace says that it writes to files of the host.
func (x *Execution) allowNamespaces(spec *Spec, inPlace bool) error {
	if os.Geteuid() == 0 {
		return &Error{Op: opUserns, Err: errUsernsRoot}
	}
	if err := features.Get(features.LockedLayers).Err(); err != nil {
		return &Error{Op: opUserns, Err: err}
	}
	l := x.runner.config.limits(&x.request)
	spec.UserNamespaces = true
	// The cgroup of the limits belongs to this user, so the command could change its limits.
	spec.CgroupNamespaces = l.Memory == 0 && l.PIDs == 0 && l.CPUs == 0 && !cgroups.Reachable()
	spec.Openat2 = !inPlace
	return nil
}
