package nsrun

import (
	"errors"

	"github.com/nsrun/nsrun/features"
)

// Backend is what keeps a command in its sandbox.
type Backend uint8

// The backends. docs/backends.md says what each one holds.
const (
	// AutoBackend is NativeBackend where this machine allows namespaces, and LandlockBackend where it refuses them:
	// by trying.
	AutoBackend Backend = iota
	// NativeBackend makes namespaces and mounts.
	NativeBackend
	// LandlockBackend makes none: files are protected by Landlock (Linux 6.12), and the rest by seccomp filters.
	LandlockBackend
)

var backendNames = [...]string{"auto", features.Native, features.Landlock}

// String returns "auto", "native" or "landlock".
func (b Backend) String() string {
	if int(b) >= len(backendNames) {
		return "backend?"
	}
	return backendNames[b]
}

// MarshalText returns what String does, so that JSON holds the word.
func (b Backend) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is ParseBackend.
func (b *Backend) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBackend(string(text))
	return err
}

// ParseBackend is the backend with a name.
func ParseBackend(name string) (Backend, error) {
	for i, n := range backendNames {
		if n == name {
			return Backend(i), nil
		}
	}
	return 0, errors.New("only auto, native and landlock")
}

// NamespacesRemedy says how a container is started in which namespaces can be made.
const NamespacesRemedy = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, " +
	"podman run --security-opt seccomp=unconfined --security-opt unmask=ALL, or in Kubernetes securityContext with " +
	"seccompProfile type Unconfined and procMount Unmasked"
