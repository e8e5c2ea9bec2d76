//go:build linux

package host

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// socketNames are the names in a /proc/net/unix file (unix(7)), each once, without abstract ones. A line that does not
// look like that of a socket belongs to the name before it: a name can contain anything, even newlines.
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

func UnixSocket(path string, suspect func(dir string) bool) (m mounts.Mount, err error) {
	const op = "allow unix socket"
	s, err := holdSocket(op, path, suspect)
	if err != nil {
		return m, err
	}
	defer s.Close()
	if m, err = Bind(s.file.Name(), false); err != nil {
		return m, &plan.Error{Op: op, Path: path, Err: sys.Bare(err)}
	}
	return m, nil
}
