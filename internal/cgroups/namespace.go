//go:build linux

package cgroups

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// mostLooked is how many cgroups Reachable checks. If there are more, it returns true.
const mostLooked = 2000

// Reachable reports whether this user could write to its own cgroup or one below, through a file system that is mounted
// in a cgroup namespace. It could then kill or stop other processes, or lift limits. If that cannot be found out, it
// returns true.
func Reachable() bool {
	own, err1 := os.ReadFile("/proc/self/cgroup")
	infos, err2 := mounts.ReadMountinfo()
	if err1 != nil || err2 != nil {
		return true
	}
	left := mostLooked
	for line := range bytes.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 || reachable(f[1], f[2], infos, &left) {
			return true
		}
	}
	return false
}

// reachable is Reachable in one hierarchy: that of cgroup v2 has no name.
func reachable(hierarchy, own string, infos []mounts.Info, left *int) bool {
	first, _, _ := strings.Cut(hierarchy, ",")
	for _, in := range infos {
		if !holds(in, first) || inside(in.Root, own) == "." && strings.TrimSuffix(own, "/") != strings.TrimSuffix(in.Root, "/") {
			continue
		}
		root, err := open(unix.AT_FDCWD, in.Target)
		if err != nil {
			continue
		}
		defer root.Close()
		dir, err := open(int(root), inside(in.Root, own))
		if err != nil {
			continue
		}
		defer dir.Close()
		// With nsdelegate the kernel refuses to change the root of a namespace from within.
		delegates := hierarchy == "" && slices.Contains(strings.Split(in.Super, ","), "nsdelegate")
		return !delegates && writable(dir) || reachableBelow(dir, left)
	}
	return true // it is not mounted, so it cannot be checked
}

func reachableBelow(dir sys.FD, left *int) bool {
	for _, name := range subdirs(int(dir)) {
		if *left--; *left < 0 {
			return true
		}
		below, err := open(int(dir), name)
		if err != nil {
			continue // it is gone
		}
		found := writable(below) || reachableBelow(below, left)
		below.Close()
		if found {
			return true
		}
	}
	return false
}

// writable reports whether this user can make or change something in a cgroup.
func writable(dir sys.FD) bool {
	may := func(name string) bool { return sys.Access(int(dir), name, unix.W_OK) == nil }
	return may(".") || may("cgroup.procs") || may("tasks")
}
