//go:build linux

package host

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

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
