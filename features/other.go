//go:build !linux

package features

// Probe says that this is not Linux.
func Probe() []Feature {
	return []Feature{{Name: "linux", For: "all sandboxes", Required: true, Status: No, Why: "this system is not Linux"}}
}

// Refused returns nil: nothing is refused where nothing is run.
func Refused(err error) error { return nil }
