//go:build linux

package nsrun

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// AbstractSockets stands for all abstract unix sockets of the host in Config.AllowUnix.
const AbstractSockets = "@"

// DefaultMounts is the host's file system at its own paths, read-only, with a private /tmp, /var/tmp, /run, /dev and
// /proc, and without the secrets that HiddenPaths names. It can be an error, as HideSockets.
func DefaultMounts() mounts.Plan {
	sockets, err := hiddenSockets()
	if err != nil {
		return noPlan(err)
	}
	secrets, _, _ := host.Secrets("")
	hidden, _ := host.ThroughLinks(append(secrets, sockets...))
	return append(BaseMounts(), blocked(hidden)...)
}

// BaseMounts is DefaultMounts without its last part, which hides secrets and sockets. Put more mounts between
// BaseMounts and HideSecrets and HideSockets, so that these hide what is in them too.
func BaseMounts() mounts.Plan { return plan.Base(host.PrivatePlaces()) }

// HideSecrets blocks those of HiddenPaths that exist, for each of Homes. If there
// is none, only the system's are hidden.
func HideSecrets() mounts.Plan {
	secrets, _, _ := host.Secrets("")
	return blocked(secrets)
}

// HideSockets blocks the unix sockets of the host that have a file outside the directories that are
// private anyway: a command that sees a socket can connect to it, even on a read-only mount.
// Sockets that are created later are not hidden. If this process has too many open files, or no memory, to look for
// them, the Plan has a mount that is an error, so that no command starts with it.
func HideSockets() mounts.Plan {
	list, err := hiddenSockets()
	if err != nil {
		return noPlan(err)
	}
	return blocked(list)
}

// noPlan is a Plan with which no command starts: its path, the error, is not absolute.
func noPlan(err error) mounts.Plan { return mounts.Plan{mounts.Block(err.Error())} }

func hiddenSockets() ([]string, error) {
	near, more, err := host.FindSockets(false, new(atomic.Bool))
	others, merr := more()
	return slices.DeleteFunc(append(near, others...), plan.Private), cmp.Or(err, merr)
}

func blocked(list []string) (p mounts.Plan) {
	for _, path := range list {
		p = append(p, mounts.Block(path))
	}
	return p
}

// Homes are the home directories of the caller: the one that /etc/passwd has for
// its effective user id, and $HOME if that is another one.
func Homes() []string { return host.Homes() }

// FindProject returns the git work tree around dir, an absolute path, or dir itself. A directory of
// another user never counts as the caller's work tree, whatever somebody put into it.
func FindProject(dir string) string { return host.Project(dir) }

// ProjectPlayground is the playground of a project, an absolute path without symbolic links: a directory in
// $XDG_DATA_HOME/nsrun/playgrounds, or the same in ~/.local/share. Its name ends with a digest of the path. If project
// is empty, it is the playground of commands without a project, $XDG_DATA_HOME/nsrun/playground.
func ProjectPlayground(project string) (string, error) {
	dir, err := host.Playground(project)
	return dir, public(err, nil, nil)
}

// Playgrounds returns the existing playgrounds: that of commands without a project, then those of
// projects, sorted by name.
func Playgrounds() (dirs []string, err error) {
	dirs, err = host.Playgrounds()
	return dirs, public(err, nil, nil)
}

// PlaygroundUsage is how much there is in a playground.
type PlaygroundUsage struct {
	Dir   string
	Files int   // directories not counted
	Bytes int64 // on disk
}

// MeasurePlayground measures a playground; an empty dir means ProjectPlayground(""). A missing playground is empty.
func MeasurePlayground(dir string) (PlaygroundUsage, error) {
	u, err := host.MeasurePlayground(dir)
	return PlaygroundUsage(u), public(err, nil, nil)
}

// CleanPlayground removes the contents of a playground, and returns how much that was. It removes links, and never
// follows them. If something is mounted in the playground, it leaves that, and returns an error.
func CleanPlayground(dir string) (PlaygroundUsage, error) {
	u, err := host.CleanPlayground(dir)
	return PlaygroundUsage(u), public(err, nil, nil)
}
