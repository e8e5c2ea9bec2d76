package plan

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// Base is the host's file system at its own paths, read-only, with private directories over it.
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
	// A read-only mount does not prevent connections to the sockets of the host's services.
	if run {
		p = append(p, mounts.Tmpfs("/run"))
	}
	return p
}

// Console shows the caller's terminal, so that ttyname(3) finds it: /dev/pts has only the sandbox's own terminals.
const Console = "/dev/console"

func (b *building) withTerminal(p mounts.Plan) mounts.Plan {
	for i := range p {
		if p[i].Kind == mounts.KindDev {
			p[i].Source, p[i].Same = b.Terminal.Path, b.Terminal.Same
		}
	}
	return p
}

var privatePlaces = [...]string{"/run/", "/var/run/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

// Private reports whether commands have a directory of their own instead of the host's at a path.
func Private(path string) bool {
	return slices.ContainsFunc(privatePlaces[:], func(place string) bool { return strings.HasPrefix(path, place) })
}

// Below returns a visible mount point below dir, or "".
func Below(table []mounts.Info, dir string) string {
	if below := mounts.Below(table, dir); len(below) > 1 {
		return path.Join(dir, below[1].Target)
	}
	return ""
}
