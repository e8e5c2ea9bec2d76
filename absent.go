//go:build linux

package nsrun

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
)

// Secrets that do not exist when a command starts may come into being while it runs. Where the home directory is shown
// through an overlay (see mountPoint) its front layer says that they are deleted: so they are absent, then and later.

// An absentName is a name of homeSecrets that is missing.
type absentName struct {
	name string
	from int // how long the first part of it is that is missing
}

// absentSecrets are those in a home directory.
func absentSecrets(home string) (names []absentName) {
	fd, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	kinds := make(map[string]uint32) // of directories; 0: missing
	kind := func(name string) uint32 {
		if k, ok := kinds[name]; ok {
			return k
		}
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			kinds[name] = st.Mode & unix.S_IFMT
		} else {
			kinds[name] = 0
		}
		return kinds[name]
	}
	for _, name := range homeSecrets {
		for i := range len(name) + 1 {
			if i < len(name) && name[i] != '/' {
				continue
			}
			k := kind(name[:i])
			if k == 0 {
				names = append(names, absentName{name, i})
			}
			if k != unix.S_IFDIR {
				break // a link leads elsewhere
			}
		}
	}
	return names
}

// hideLater has the overlay over the home directory hide names: the first part of each that is missing, but for those at
// or above what is mounted.
func hideLater(plan mounts.Plan, home string, names []absentName) mounts.Plan {
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		return plan
	}
	at := slices.IndexFunc(plan, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindOverlay && m.ReadOnly && m.Target == home && slices.Equal(m.Lower, []string{home})
	})
	if at < 0 {
		return plan
	}
	needed := make(map[string]bool)
	for _, m := range plan {
		rel, below := strings.CutPrefix(m.Target, home+"/")
		for ; below && rel != "." && !needed[rel]; rel = path.Dir(rel) {
			needed[rel] = true
		}
	}
	plan = slices.Clone(plan)
	over := &plan[at]
	hidden := make(map[string]bool)
	for _, n := range names {
		for i := n.from; i <= len(n.name); i++ {
			if part := n.name[:i]; (i == len(n.name) || n.name[i] == '/') && !needed[part] {
				if !hidden[part] {
					over.Hide = append(over.Hide, part)
				}
				hidden[part] = true
				break
			}
		}
	}
	if len(over.Hide)+len(over.Dirs) == 0 {
		return slices.Delete(plan, at, at+1)
	}
	return plan
}
