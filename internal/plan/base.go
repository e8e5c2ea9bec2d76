package plan

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// Base is the host's file system at its own paths, read-only, with private places over it. Those that are links on
// this host lead to the others.
func Base(varTmp, run bool) mounts.Plan {
	p := mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.Dev("/dev"),
		mounts.Proc("/proc"),
		mounts.Tmpfs("/tmp").WithPerm(0o777 | fs.ModeSticky),
	}
	if varTmp {
		p = append(p, mounts.Tmpfs("/var/tmp").WithPerm(0o777|fs.ModeSticky))
	}
	// The sockets of the host's services: a read-only mount does not keep anybody
	// from connecting to them.
	if run {
		p = append(p, mounts.Tmpfs("/run"))
	}
	return p
}

// Console is where a sandbox has the terminal of its caller, so that programs find its name (ttyname(3)): what is in
// /dev/pts are the sandbox's own.
const Console = "/dev/console"

// withTerminal is p with the caller's terminal at Console.
func (b *building) withTerminal(p mounts.Plan) mounts.Plan {
	for i := range p {
		if p[i].Kind == mounts.KindDev {
			p[i].Source, p[i].Same = b.Terminal.Path, b.Terminal.Same
		}
	}
	return p
}

var privatePlaces = [...]string{"/run/", "/var/run/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

// Private reports whether a path of the host lies where commands have something of their own instead.
func Private(path string) bool {
	return slices.ContainsFunc(privatePlaces[:], func(place string) bool { return strings.HasPrefix(path, place) })
}

// Below is a mount point below dir that can be seen, empty if there is none.
func Below(table []mounts.Info, dir string) string {
	if below := mounts.Below(table, dir); len(below) > 1 {
		return path.Join(dir, below[1].Target)
	}
	return ""
}
