//go:build linux

package main

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/sandbox"
)

// The sandbox that was begun before main begins to hide names below the home directory while this program looks at the
// host. As root it has to know the command's ids for that. After a wrong guess the command gets another sandbox, which
// takes about two milliseconds.

// aheadOfFlags lets the sandbox begin before the flags are read, if the first arguments of nsrun run decide about the
// ids. It reports whether they do.
func aheadOfFlags(args []string) (known bool) {
	var c nsrunlib.Config
	if os.Geteuid() == 0 {
		if !decided() {
			return false
		}
	words:
		for _, a := range args {
			switch name := strings.TrimLeft(a, "-"); {
			case name == "" || name == a:
				break words // the command
			case name == "direct":
				c.Mode = nsrunlib.Direct
			case !slices.Contains([]string{"commit", "discard", "keep", "q", "why", "watch"}, name):
				return false
			}
		}
	}
	ahead(&c)
	return true
}

// decided reports whether there are no configuration files, so that flags decide.
func decided() bool {
	p := configfile.DefaultPlaces()
	return !slices.ContainsFunc([]string{p.System, p.User, configfile.ProjectName}, func(name string) bool {
		return name != "" && unix.Access(name, unix.F_OK) == nil
	})
}

func ahead(c *nsrunlib.Config) {
	switch {
	case c.OwnIDs: // which needs a sandbox that does not begin as root
	case likelyOwners(c):
		sandbox.Ahead(host.LikelyHidden(), idmap.HostRoot.Ahead())
	default:
		sandbox.Ahead(host.LikelyHidden(), nil)
	}
}

// likelyOwners reports whether a Runner probably lets root's command change owners.
func likelyOwners(c *nsrunlib.Config) bool {
	direct := func(r nsrunlib.Rule) bool { return r.Mode == nsrunlib.Direct }
	if os.Geteuid() != 0 || !idmap.Possible() || c.Mode != nsrunlib.Overlay || c.Backend == nsrunlib.LandlockBackend ||
		slices.ContainsFunc(c.Rules, direct) || slices.Contains(c.Presets, nsrunlib.BuildPreset) {
		return false
	}
	var fs unix.Statfs_t // most that have idmapped mounts
	return unix.Statfs(".", &fs) == nil && slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	}, int64(fs.Type))
}
