//go:build linux

// Package features finds out what this kernel, as it is configured and as far as
// this process may use it, can do: by trying, never by its version.
package features

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Status is the outcome of a probe.
type Status uint8

// The outcomes. The zero Status is Unknown: the probe itself could not be done.
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

// Feature is one thing that a kernel may or may not be able to do. The names of
// its fields in JSON are stable.
type Feature struct {
	Name     string `json:"name"`
	For      string `json:"for"`      // what it is needed for
	Required bool   `json:"required"` // no sandbox without it
	Status   Status `json:"status"`
	Why      string `json:"why,omitempty"`    // the error that trying gave
	Since    string `json:"since,omitempty"`  // the Linux version that brought it
	Remedy   string `json:"remedy,omitempty"` // what can be done, where it is missing
}

// Err is nil where the feature is there. Otherwise it says why not, and is an
// errors.ErrUnsupported.
func (f Feature) Err() error {
	if f.Status == Yes {
		return nil
	}
	return &MissingError{f}
}

// MissingError says that something this machine cannot do was asked for.
type MissingError struct{ Feature Feature }

func (e *MissingError) Error() string {
	s := e.Feature.Name + " is not available"
	if e.Feature.Why != "" {
		s += ": " + e.Feature.Why
	}
	if e.Feature.Remedy != "" {
		s += " (" + e.Feature.Remedy + ")"
	}
	return s
}

// Is reports that the error is errors.ErrUnsupported.
func (e *MissingError) Is(target error) bool { return target == errors.ErrUnsupported }

// probe is a feature and how to try it: here, or, where try is nil, in a process
// that has a user namespace and a mount namespace of its own (see inside).
type probe struct {
	Feature
	try func() error
}

// Probe tries everything. It takes some milliseconds.
func Probe() []Feature {
	inner := tryInside()
	list := make([]Feature, 0, len(probes))
	for _, p := range probes {
		f := p.Feature
		if p.try != nil {
			f.record(p.try())
		} else if out, ok := inner[f.Name]; ok {
			f.record(out)
		} else {
			f.record(inner[""])
			if f.Name != nameUser && f.Status == Yes {
				f.Status = Unknown
			}
		}
		if f.Status == Yes {
			f.Remedy = ""
		}
		list = append(list, f)
	}
	return list
}

// record turns the error of an attempt into a status.
func (f *Feature) record(err error) {
	switch {
	case err == nil:
		f.Status = Yes
	case errors.Is(err, errUnknown):
		f.Status = Unknown
	default:
		f.Status, f.Why = No, err.Error()
	}
}

var errUnknown = errors.New("could not be tried")

const (
	nameUser    = "user namespaces"
	nameMount   = "mount namespaces"
	nameOverlay = "overlay"
	nameNet     = "network namespaces"
	namePID     = "process namespaces"
)

var probes = []probe{
	{Feature: Feature{Name: nameUser, For: "a sandbox without privileges", Required: true, Since: "3.8",
		Remedy: "one of sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), kernel.unprivileged_userns_clone=1 (Debian), user.max_user_namespaces=10000"}},
	{Feature: Feature{Name: nameMount, For: "a file system of its own", Required: true, Since: "3.8",
		Remedy: "a container has to be started with fewer restrictions (seccomp, AppArmor)"}},
	{Feature: Feature{Name: nameOverlay, For: "keeping changes apart", Since: "5.11",
		Remedy: "nsrun run --direct does without"}},
	{Feature: Feature{Name: nameNet, For: "no network", Required: true, Since: "2.6.29",
		Remedy: "a kernel with CONFIG_NET_NS"}},
	{Feature: Feature{Name: namePID, For: "ending all processes of a command", Required: true, Since: "3.8",
		Remedy: "a kernel with CONFIG_PID_NS; in a container, an unmasked /proc"}},
	{Feature: Feature{Name: "clone3", For: "starting sandboxes", Required: true, Since: "5.5",
		Remedy: "Linux 5.10 or newer, or a container runtime that lets clone3 pass"}, try: tryClone3},
	{Feature: Feature{Name: "openat2", For: "paths that stay inside", Required: true, Since: "5.6",
		Remedy: "Linux 5.10 or newer"}, try: tryOpenat2},
	{Feature: Feature{Name: "close_range", For: "passing no descriptors on", Required: true, Since: "5.9",
		Remedy: "Linux 5.10 or newer"}, try: tryCloseRange},
	{Feature: Feature{Name: "new mount calls", For: "starting fast", Since: "5.12",
		Remedy: "mount(2) is used instead, which is slower"}, try: tryNewMounts},
	{Feature: Feature{Name: "seccomp filters", For: "refusing dangerous system calls", Required: true, Since: "3.5",
		Remedy: "a kernel with CONFIG_SECCOMP_FILTER"}, try: trySeccomp},
	{Feature: Feature{Name: "landlock", For: "a second wall around files", Since: "5.13",
		Remedy: "add landlock to the kernel's lsm= parameter"}, try: tryLandlock},
	{Feature: Feature{Name: "seccomp notification", For: "network rules by the broker", Since: "5.0",
		Remedy: "as root the kernel enforces them without"}, try: tryNotification},
	{Feature: Feature{Name: "bpf", For: "network rules by the kernel", Since: "4.11",
		Remedy: "root, or CAP_BPF, CAP_NET_ADMIN and a cgroup of one's own; the broker does without"}, try: tryBPF},
	{Feature: Feature{Name: "cgroup v2", For: "network rules by the kernel", Since: "4.5",
		Remedy: "mount cgroup2, or boot with systemd.unified_cgroup_hierarchy=1"}, try: tryCgroup2},
	{Feature: Feature{Name: "bwrap", For: "hosts that allow namespaces to bwrap only",
		Remedy: "install the package bubblewrap"}, try: tryBwrap},
}

func tryClone3() error {
	// No arguments of that size exist; where the call does not, it is ENOSYS.
	_, _, e := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return exceptFor(e, unix.EINVAL)
}

func tryOpenat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func tryCloseRange() error {
	// The order is wrong; where the call does not exist, it is ENOSYS.
	return exceptFor(errnoOf(unix.CloseRange(2, 1, 0)), unix.EINVAL)
}

func tryNewMounts() error {
	if NewMounts() {
		return nil
	}
	return unix.ENOSYS
}

func trySeccomp() error {
	// A filter at address 0 is EFAULT from whoever has filters.
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	return exceptFor(e, unix.EFAULT)
}

func tryNotification() error {
	var sizes [3]uint16 // struct seccomp_notif_sizes
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	return exceptFor(e, 0)
}

func tryBPF() error {
	// A table of prefixes, which takes CAP_BPF.
	const keySize, noPrealloc = 8, 1
	attr := [5]uint32{unix.BPF_MAP_TYPE_LPM_TRIE, keySize, 1, 1, noPrealloc}
	fd, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if e == 0 {
		_ = unix.Close(int(fd))
	}
	return exceptFor(e, 0)
}

func tryLandlock() error {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); e != 0 {
		return e
	}
	return nil
}

func tryCgroup2() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return errUnknown
	}
	if !strings.Contains(string(b), " - cgroup2 ") {
		return errors.New("no cgroup2 file system is mounted")
	}
	return nil
}

func tryBwrap() error {
	_, err := exec.LookPath("bwrap")
	return err
}

func errnoOf(err error) unix.Errno {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return 0
}

// exceptFor is nil for the one error that shows that a call exists.
func exceptFor(e, exists unix.Errno) error {
	if e == exists || e == 0 {
		return nil
	}
	return e
}
