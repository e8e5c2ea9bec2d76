package nsrun

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/features"
)

// Backend is the mechanism that makes a sandbox. The zero Backend is AutoBackend.
type Backend uint8

// The backends. docs/backends.md says what each one enforces.
const (
	// AutoBackend is NativeBackend where this machine allows namespaces, and LandlockBackend where it refuses them.
	// A Runner finds that out by trying.
	AutoBackend Backend = iota
	// NativeBackend uses namespaces and mounts (namespaces(7)).
	NativeBackend
	// LandlockBackend uses neither: Landlock protects files (landlock(7), Linux 6.12), and seccomp filters the
	// rest.
	LandlockBackend
)

var backendNames = [...]string{"auto", features.Native, features.Landlock}

// String returns "auto", "native" or "landlock".
func (b Backend) String() string { return nameOf(backendNames[:], b, "backend?") }

// MarshalText returns what String does, so that JSON holds the word.
func (b Backend) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is ParseBackend.
func (b *Backend) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBackend(string(text))
	return err
}

// ParseBackend returns the backend with this name.
func ParseBackend(name string) (Backend, error) {
	return named[Backend](backendNames[:], name, "the values are auto, native and landlock")
}

// nameOf is the name of a value; without a name, it is other.
func nameOf[T ~uint8](names []string, value T, other string) string {
	if int(value) >= len(names) {
		return other
	}
	return names[value]
}

// named returns the value that has a name. For an unknown name, the error lists the values.
func named[T ~uint8](names []string, name, values string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	return 0, errors.New(values)
}

// NamespacesRemedy says how a container is started in which namespaces can be made.
const NamespacesRemedy = features.NamespacesRemedy

// AvailabilityStatus says whether commands can be run in a sandbox.
type AvailabilityStatus uint8

// The statuses. The zero status means that nothing was checked.
const (
	NotChecked AvailabilityStatus = iota
	Available
	NotInstalled // something has to be installed or loaded, such as a kernel module
	NotSupported // the kernel lacks something, or does not allow it to this process
)

var availabilityNames = [...]string{"not checked", "available", "not installed", "not supported"}

// String returns "not checked", "available", "not installed" or "not supported".
func (s AvailabilityStatus) String() string { return nameOf(availabilityNames[:], s, "status?") }

// Availability is what Check found.
type Availability struct {
	Status AvailabilityStatus
	Reason string // what is missing, and why; empty: nothing
	Remedy string // what to do; empty: nothing is missing, or nothing helps
	// Backend is the one that AutoBackend selects on this machine. If that is LandlockBackend, Reason and Remedy
	// are about NativeBackend.
	Backend Backend
}

// SandboxMode says whether commands have to be run in a sandbox.
type SandboxMode uint8

var sandboxModeNames = [...]string{"required", "preferred", "disabled"}

// String returns "required", "preferred" or "disabled".
func (m SandboxMode) String() string { return nameOf(sandboxModeNames[:], m, "sandbox mode?") }

// ParseSandboxMode returns the mode with this name.
func ParseSandboxMode(name string) (SandboxMode, error) {
	return named[SandboxMode](sandboxModeNames[:], name, "the values are required, preferred and disabled")
}

// The modes. A command without a sandbox is a child of this program, and can do everything that its user can do: no
// folder, rule, limit or network policy holds. Only the environment, the working directory and the timeout apply.
// Result.Unsandboxed and a Notice say so for each command.
const (
	SandboxRequired  SandboxMode = iota // a command that cannot have one is not run
	SandboxPreferred                    // where Check says NotSupported, commands run without one
	SandboxDisabled                     // all commands run without one
)
