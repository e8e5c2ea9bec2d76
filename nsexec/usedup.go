package nsexec

import (
	"math"
	"os"
	"strconv"
	"strings"
)

// namespaceKinds are the kinds of namespaces in the names of the limits user.max_*_namespaces.
var namespaceKinds = [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

// raised is a value for a limit on namespaces with which many sandboxes can run.
const raised = 10000

// namespacesUsedUp says which limit on namespaces is reached. The kernel does not say which: it is the lowest, or they
// are all as high.
func namespacesUsedUp() string {
	low := lowest(readLimit)
	if low == nil {
		return "the limit on namespaces is reached; try: run nsrun outside of the container or sandbox that it is in"
	}
	return "the limit on namespaces is reached; try: sysctl " + strings.Join(low, " ")
}

// mountsUsedUp says which limit is reached if a mount cannot be made: a copy of mounts counts as a mount namespace
// until it is attached.
func mountsUsedUp() string {
	low := lowest(readLimit)
	for _, setting := range low {
		if len(low) < len(namespaceKinds) && strings.HasPrefix(setting, limitName("mnt")) {
			return "the limit on mount namespaces is reached; try: sysctl " + setting
		}
	}
	const usual = 100000
	now, _ := readLimit("fs/mount-max")
	return "the limit on mounts is reached; try: sysctl fs.mount-max=" + strconv.Itoa(max(usual, 2*now))
}

// unlimited is a limit that nobody has set in this user namespace.
const unlimited = math.MaxInt32

// lowest returns the settings for sysctl(8) that raise the lowest limits on namespaces. None: they cannot be read, or
// no setting here raises them, because it is a limit of a user namespace around this one that is reached.
func lowest(read func(name string) (int, bool)) (settings []string) {
	least := -1
	for _, kind := range namespaceKinds {
		n, ok := read("user/max_" + kind + "_namespaces")
		if ok && (least < 0 || n < least) {
			least, settings = n, nil
		}
		if ok && n == least && n < unlimited {
			settings = append(settings, limitName(kind)+"="+strconv.Itoa(min(max(raised, 2*n), unlimited)))
		}
	}
	return settings
}

func limitName(kind string) string { return "user.max_" + kind + "_namespaces" }

// readLimit reads a file in /proc/sys.
func readLimit(name string) (n int, ok bool) {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}
