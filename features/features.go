// Package features has the list of kernel features that nsrun uses, and finds out whether this kernel has them, is
// configured for them, and lets this process use them. It does so by trying, never by the kernel's version.
//
// There is one table (table.go), from which everything else is read: the answers for product code (Has), the output of
// `nsrun doctor` (Probe), the names in `missing` of reports (Name), and the text of errors (Feature.Err, Lacks).
package features

import (
	"errors"
	"fmt"
	"strings"
)

// Native and Landlock are the backends: Native uses namespaces and mounts, Landlock uses Landlock and seccomp filters
// instead. Unsandboxed stands for a command that ran without a sandbox.
const (
	Native      = "native"
	Landlock    = "landlock"
	Unsandboxed = "none"
)

// Name names a feature, in reports too: the names are stable.
type Name string

// The features, in the order in which Probe returns them. The table says what each is for.
const (
	CommonCalls         Name = "common calls"
	Proc                Name = "proc"
	UserNamespaces      Name = "user namespaces"
	MountNamespaces     Name = "mount namespaces"
	NetworkNamespaces   Name = "network namespaces"
	ProcessNamespaces   Name = "process namespaces"
	OwnProc             Name = "own proc"
	IPCNamespaces       Name = "ipc and uts namespaces"
	CgroupNamespaces    Name = "cgroup namespaces"
	Openat2             Name = "openat2"
	CloseRange          Name = "close_range"
	Statx               Name = "statx"
	SeccompFilters      Name = "seccomp filters"
	DirectCalls         Name = "direct system calls"
	Capset              Name = "capset"
	FileCalls           Name = "file calls"
	Devices             Name = "devices"
	Renameat2           Name = "renameat2"
	Overlay             Name = "overlay"
	TmpfsAttributes     Name = "tmpfs attributes"
	NewMountCalls       Name = "new mount calls"
	Clone3              Name = "clone3"
	SessionKeys         Name = "session keys"
	LandlockScopes      Name = "landlock scopes"
	BPF                 Name = "bpf"
	CgroupV2            Name = "cgroup v2"
	CgroupControllers   Name = "cgroup controllers"
	ProcessCounts       Name = "process counts"
	SeccompNotification Name = "seccomp notification"
	PidfdGetfd          Name = "pidfd_getfd"
	PidfdOpen           Name = "pidfd_open"
	Kcmp                Name = "kcmp"
	LockedLayers        Name = "locked layers"
	KillableCalls       Name = "killable calls"
	LandlockTCP         Name = "landlock tcp"
	Fanotify            Name = "fanotify"
)

// Status is the outcome of a probe.
type Status uint8

// The outcomes. The zero Status is Unknown: the probe itself failed.
const (
	Unknown Status = iota
	Yes
	No
)

// String returns "unknown", "yes" or "no".
func (s Status) String() string {
	switch s {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// MarshalText returns what String does, so that JSON holds the word.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Status) UnmarshalText(b []byte) error {
	for _, v := range [...]Status{Unknown, Yes, No} {
		if v.String() == string(b) {
			*s = v
			return nil
		}
	}
	return errors.New("no such status: " + string(b))
}

// Feature is a feature of the kernel, and whether it is there. The names of its fields in JSON are stable.
type Feature struct {
	Name     Name   `json:"name"`
	For      string `json:"for"`      // what it is needed for
	Required bool   `json:"required"` // no sandbox without it
	Status   Status `json:"status"`
	Why      string `json:"why,omitempty"`    // the error of the test
	Since    string `json:"since,omitempty"`  // the first Linux version that has it
	Needs    string `json:"needs,omitempty"`  // what it needs besides; empty: nothing
	Lost     string `json:"lost,omitempty"`   // what does not work without it
	Remedy   string `json:"remedy,omitempty"` // what to do if it is missing

	cause error // of Why
}

// Takes says which kernel has the feature, and what else it needs: "it needs Linux 6.12, and …".
func (f Feature) Takes() string {
	var parts []string
	if f.Since != "" {
		parts = append(parts, "Linux "+f.Since)
	}
	if f.Needs != "" {
		parts = append(parts, f.Needs)
	}
	if len(parts) == 0 {
		return ""
	}
	return "it needs " + strings.Join(parts, ", and ")
}

// Err returns nil if the feature is there, otherwise a *MissingError.
func (f Feature) Err() error {
	if f.Status == Yes {
		return nil
	}
	return &MissingError{f}
}

// MissingError says that this machine lacks a feature that was asked for, or, if the Status is Unknown, that the
// feature could not be tested.
type MissingError struct{ Feature Feature }

// Error is one sentence: what is missing, why, and what to do.
func (e *MissingError) Error() string {
	f := &e.Feature
	if f.Status == Unknown {
		s := "nsrun could not find out whether this machine has " + string(f.Name)
		if f.Why != "" {
			s += ": " + f.Why
		}
		return s
	}
	s := f.missing()
	more := f.Takes()
	if f.Remedy != "" {
		if more != "" {
			more += "; "
		}
		more += "try: " + f.Remedy
	}
	if more != "" {
		s += " (" + more + ")"
	}
	return s
}

// missing says what is missing and why, or that a filter refuses a call that the kernel has.
func (f *Feature) missing() string {
	s := "this machine has no " + string(f.Name)
	if e, ok := errors.AsType[filteredError](f.cause); ok {
		s = e.refuses(string(f.Name))
	} else if e, ok := errors.AsType[sentenceError](f.cause); ok {
		s = e.Error()
	} else if f.Why != "" {
		s += ": " + f.Why
	}
	return s
}

// sentenceError says what is missing in a whole sentence, such as which calls a seccomp filter does not allow.
type sentenceError interface {
	error
	sentence()
}

// filteredError is the error with which a seccomp filter refuses a call that the kernel has.
type filteredError struct{ error }

func (e filteredError) Error() string { return e.refuses("it") }

func (e filteredError) refuses(what string) string {
	return "a seccomp filter refuses " + what + ", as that of an outer nsrun does: " + e.error.Error()
}

func (e filteredError) Unwrap() error { return e.error }

// Is reports that the error is errors.ErrUnsupported, unless the Status is Unknown.
func (e *MissingError) Is(target error) bool {
	return target == errors.ErrUnsupported && e.Feature.Status != Unknown
}

// Unwrap returns the probe's error, if there was one.
func (e *MissingError) Unwrap() error { return e.Feature.cause }

// WithRefused returns err with what Refused says.
func WithRefused(err error) error {
	if refused := Refused(err); refused != nil {
		return fmt.Errorf("%w (%w)", err, refused)
	}
	return err
}

// NamespacesRemedy says how a container is started in which namespaces can be made.
const NamespacesRemedy = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, " +
	"podman run --security-opt seccomp=unconfined --security-opt unmask=ALL, or in Kubernetes securityContext with " +
	"seccompProfile type Unconfined and procMount Unmasked"
