package nsrun

import (
	"bytes"
	"os"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// HideSockets blocks the unix sockets of the host that have a name outside of the
// directories that are private anyway: whoever can see a socket can connect to it,
// on a read-only mount too. Sockets that come into being later are not hidden.
func HideSockets() mounts.Plan {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil // no /proc, and no way to know
	}
	var p mounts.Plan
	for _, name := range socketNames(b) {
		if fi, err := os.Lstat(name); err == nil && fi.Mode()&os.ModeSocket != 0 {
			p = append(p, mounts.Block(name))
		}
	}
	return p
}

// privatePlaces are replaced in BaseMounts.
var privatePlaces = [...]string{"/run/", "/var/run/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

// socketNames are the absolute names in a /proc/net/unix file (unix(7)), each
// once, without those in private places.
func socketNames(b []byte) []string {
	var names []string
	seen := make(map[string]bool)
lines:
	for line := range bytes.Lines(b) {
		// Num RefCount Protocol Flags Type St Inode Path; a path may hold spaces.
		f := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte(" /"), 2)
		if len(f) != 2 {
			continue
		}
		name := "/" + string(f[1])
		for _, place := range privatePlaces {
			if strings.HasPrefix(name, place) {
				continue lines
			}
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
