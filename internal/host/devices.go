//go:build linux

package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

type deviceSet struct {
	name     string
	patterns []string
}

// deviceSets are the sets for graphics cards and virtual machines.
var deviceSets = [...]deviceSet{
	{"nvidia", []string{"/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps/*"}},
	{"dri", []string{"/dev/dri/card[0-9]*", "/dev/dri/renderD[0-9]*"}},
	{"kvm", []string{"/dev/kvm"}},
}

var errNotBelowDev = errors.New("neither nvidia, dri or kvm, nor a path below /dev")

// Devices are the mounts of devices that commands can use: each name is one of a set, or a path below /dev.
func Devices(names []string) (list mounts.Plan, err error) {
	for _, name := range names {
		paths, err := devicePaths(name)
		for _, path := range paths {
			if err == nil {
				var m mounts.Mount
				if m, err = device(path); err == nil && !slices.ContainsFunc(list, func(o mounts.Mount) bool { return o.Target == path }) {
					list = append(list, m)
				}
			}
		}
		if err != nil {
			return nil, &plan.Error{Op: plan.OpDevice, Path: name, Err: sys.Bare(err)}
		}
	}
	return list, nil
}

func devicePaths(name string) (paths []string, err error) {
	i := slices.IndexFunc(deviceSets[:], func(set deviceSet) bool { return set.name == name })
	if i < 0 {
		if filepath.Clean(name) != name || !strings.HasPrefix(name, "/dev/") {
			return nil, errNotBelowDev
		}
		return []string{name}, nil
	}
	for _, pattern := range deviceSets[i].patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil, fs.ErrNotExist
	}
	return paths, nil
}

// deviceName is the name that Devices takes for a device: that of its set, or its path. Empty: commands cannot have it.
func deviceName(path string) string {
	if !strings.HasPrefix(path, "/dev/") {
		return ""
	}
	if _, err := device(path); err != nil {
		return ""
	}
	for _, set := range deviceSets {
		if slices.ContainsFunc(set.patterns, func(pattern string) bool { ok, _ := filepath.Match(pattern, path); return ok }) {
			return set.name
		}
	}
	return path
}

func device(path string) (m mounts.Mount, err error) {
	// Read-only: writing to a device does not write to its mount, and the command must not change its mode or
	// owner.
	m, st, err := bind(path, false)
	switch {
	case errors.Is(err, unix.ELOOP):
		return m, errDeviceLink
	case err != nil:
		return m, err
	case st.Mode&unix.S_IFMT != unix.S_IFCHR:
		return m, errNotDevice
	}
	m.Devices = true
	return m, kindOf(st.Rdev).refused()
}
