//go:build linux

package host

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// BlockSockets blocks sockets; those in private places only with all: folders and rules can show what is there.
func BlockSockets(paths []string, all bool) (p mounts.Plan) {
	for _, name := range paths {
		if all || !InPrivatePlace(name) {
			p = append(p, mounts.Block(name))
		}
	}
	return p
}

// privatePlaces are replaced in BaseMounts.
var privatePlaces = [...]string{"/run/", "/var/run/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

func InPrivatePlace(name string) bool {
	return slices.ContainsFunc(privatePlaces[:], func(place string) bool { return strings.HasPrefix(name, place) })
}

// socketNames are the names in a /proc/net/unix file (unix(7)), each once, but no abstract ones. What does not look like
// the line of a socket belongs to the name before: there may be anything in one.
func socketNames(b []byte) []string {
	var names []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := socketLine(line); ok {
			names = append(names, name)
		} else if len(names) > 0 {
			names[len(names)-1] += "\n" + line
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || name[0] == '@' })
	slices.Sort(names)
	return slices.Compact(names)
}

// socketLine reads a line: Num RefCount Protocol Flags Type St Inode Path.
func socketLine(line string) (name string, ok bool) {
	num, rest, ok := strings.Cut(line, ": ")
	if !ok || !isHex(num) {
		return "", false
	}
	for _, width := range [...]int{8, 8, 8, 4, 2} {
		if len(rest) <= width || !isHex(rest[:width]) || rest[width] != ' ' {
			return "", false
		}
		rest = rest[width+1:]
	}
	inode, name, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	return name, isHex(inode)
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }
