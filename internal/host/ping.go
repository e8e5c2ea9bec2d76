//go:build linux

package host

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// IsPrivileged reports whether a program has privileges of its own: a set-user-id bit of root, or capabilities.
func IsPrivileged(program string) bool {
	name, err := exec.LookPath(program)
	var st unix.Stat_t
	if err != nil || unix.Stat(name, &st) != nil {
		return false
	}
	_, err = unix.Getxattr(name, "security.capability", nil)
	return err == nil || st.Mode&unix.S_ISUID != 0 && st.Uid == 0
}

// Pings reports whether the host lets this process make ICMP sockets without privileges (icmp(7)).
func Pings() bool {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ping_group_range")
	words := strings.Fields(string(text))
	if len(words) != 2 {
		return false
	}
	first, _ := strconv.Atoi(words[0])
	last, _ := strconv.Atoi(words[1])
	groups, _ := os.Getgroups()
	return slices.ContainsFunc(append(groups, os.Getegid()), func(group int) bool { return group >= first && group <= last })
}
