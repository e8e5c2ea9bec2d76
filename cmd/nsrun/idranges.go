//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// firstRange is where useradd(8) begins to assign ranges of ids, and rangeSize is the size of each.
const firstRange, rangeSize = 100_000, 65_536

// rangeRemedy gives the user ids to map besides its own, if newuidmap(1) is installed and the user has none. Only users
// in this host's own /etc/passwd can be given some.
func rangeRemedy(user string, read func(name string) string) (r remedy, needed bool) {
	if user == "" || read("/usr/bin/newuidmap") == "" || !strings.Contains("\n"+read("/etc/passwd"), "\n"+user+":") {
		return r, false
	}
	for _, kind := range [...]string{"uid", "gid"} {
		has, free := ranges(read("/etc/sub"+kind), user)
		if !has {
			r.run = append(r.run, []string{"usermod", "--add-sub" + kind + "s", fmt.Sprintf("%d-%d", free, free+rangeSize-1), user})
		}
	}
	r.why = user + " has no range of ids in /etc/subuid or /etc/subgid, and --uid-map and --gid-map of more than one id are refused"
	return r, len(r.run) > 0
}

// ranges reads subuid(5): whether the user has a range, and the first id after all ranges.
func ranges(list, user string) (has bool, free int) {
	free = firstRange
	for line := range strings.Lines(list) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		first, count, _ := strings.Cut(rest, ":")
		from, err := strconv.Atoi(first)
		n, err2 := strconv.Atoi(count)
		if err != nil || err2 != nil {
			continue
		}
		has = has || name == user
		free = max(free, from+n)
	}
	return has, free
}

// asker is the name of the user who asks; with sudo(8) that is not root.
func asker() string {
	if os.Geteuid() == 0 {
		return os.Getenv("SUDO_USER")
	}
	return os.Getenv("USER")
}
