//go:build linux

package nsrun

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

// AbstractSockets stands for all abstract unix sockets of the host in Config.AllowUnix.
const AbstractSockets = "@"

// HideSockets blocks the unix sockets of the host that have a file outside of the
// directories that are private anyway: whoever can see a socket can connect to it,
// on a read-only mount too. Sockets that come into being later are not hidden, nor are those of
// other network namespaces.
func HideSockets() mounts.Plan {
	near, more := findSockets(false)
	p := blockSockets(near, false)
	if more != nil {
		p = append(p, blockSockets(more(), false)...)
	}
	return p
}

// blockSockets blocks sockets; those in private places only with all: folders and rules can show what is there.
func blockSockets(paths []string, all bool) (p mounts.Plan) {
	for _, name := range paths {
		if all || !inPrivatePlace(name) {
			p = append(p, mounts.Block(name))
		}
	}
	return p
}

// lookForSockets finds what is to be blocked, while the command is made ready. What takes longer is looked for beside all
// of prepare, once: most often it finds nothing.
func (x *Execution) lookForSockets(all bool) <-chan mounts.Plan {
	c := make(chan mounts.Plan, 1)
	first := x.distant == nil
	if first {
		x.distant = make(chan mounts.Plan, 1)
	}
	known := x.sockets
	go func(distant chan<- mounts.Plan, explain bool) {
		near, more := findSockets(all)
		p := append(blockSockets(near, all), known...)
		var rest mounts.Plan
		if first && more != nil && explain {
			p = append(p, blockSockets(more(), all)...)
			more = nil
		}
		c <- p
		if first {
			if more != nil {
				rest = blockSockets(more(), all)
			}
			distant <- rest
		}
	}(x.distant, x.explain)
	return c
}

// errMoreSockets says that the command has to be prepared anew.
var errMoreSockets = errors.New("there are more sockets to be blocked")

// moreSockets waits for what takes longer: while the sandbox is set up, before the command is executed.
func (x *Execution) moreSockets() error {
	x.looked = true
	if x.sockets = <-x.distant; len(x.sockets) > 0 {
		return errMoreSockets
	}
	return nil
}

// privatePlaces are replaced in BaseMounts.
var privatePlaces = [...]string{"/run/", "/var/run/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

func inPrivatePlace(name string) bool {
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

// binds reports whether folders or rules show files of the host as they are, not through an overlay.
func (c *Config) binds(f *folders, q *Request) bool {
	shows := func(r Rule) bool { return r.Mode != Blocked }
	return len(f.direct) > 0 || len(f.readOnly) > 0 || slices.ContainsFunc(c.Rules, shows) || slices.ContainsFunc(q.Paths, shows)
}

// unixMount shows one of them.
func unixMount(path string, suspect func(dir string) bool) (mounts.Mount, error) {
	fail := func(err error) (mounts.Mount, error) { return mounts.Mount{}, &Error{"allow unix socket", path, err} }
	if !filepath.IsAbs(path) {
		return fail(errNotAbsolute)
	}
	real, err := links.Resolve(path, suspect)
	if err != nil {
		return fail(err)
	}
	fi, err := os.Lstat(real)
	if err != nil {
		return fail(bare(err))
	}
	if fi.Mode()&os.ModeSocket == 0 {
		return fail(errors.New("it is no socket"))
	}
	m, err := bindReal(real, false)
	if err != nil {
		return fail(bare(err))
	}
	return m, nil
}
