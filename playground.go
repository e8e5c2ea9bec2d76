//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

// playgroundDir is where the playground of c is on the host, with the real path of the
// project, empty if there is none.
func (c *Config) playgroundDir(project string) (string, error) {
	if c.Playground != "" {
		return c.Playground, nil
	}
	return ProjectPlayground(project)
}

// addPlayground puts the playground into a plan that has all folders. mirror does without
// an overlay over the home directory, create is false if nothing is to be done on the
// host, table the host's mounts, if they were read. It returns where it is on the host, without symbolic links.
func (c *Config) addPlayground(
	plan mounts.Plan, home, project string, mirror, create bool, table []mounts.Info,
) (_ mounts.Plan, real string, err error) {
	if home == "" {
		return plan, "", host.ErrNoHome
	}
	dir, err := c.playgroundDir(project)
	if err != nil {
		return plan, "", err
	}
	real = dir
	bind := mounts.Bind(dir, "")
	fd, st, err := host.OpenPlayground(dir, create)
	switch {
	case err == nil:
		bind.Same = host.FileID(&st)
		if text, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && filepath.IsAbs(text) {
			real = text
		}
		unix.Close(fd)
	case create || !errors.Is(err, unix.ENOENT):
		return plan, "", err
	}
	atHome, err := filepath.EvalSymlinks(home)
	if err != nil {
		return plan, "", &Error{Op: "open home directory", Path: home, Err: host.Bare(err)}
	}
	if atHome == "/" {
		return plan, "", errors.New("the home directory is /")
	}
	bind.Target = filepath.Join(atHome, host.PlaygroundName)
	plan, err = mountPoint(plan, bind, atHome, mirror, table)
	return plan, real, err
}

// mountPoint adds a bind to a plan, and the directory that it needs.
func mountPoint(plan mounts.Plan, bind mounts.Mount, home string, mirror bool, table []mounts.Info) (_ mounts.Plan, err error) {
	at := -1
	for i := range plan {
		switch plan[i].Kind {
		case mounts.KindBind, mounts.KindTmpfs, mounts.KindOverlay, mounts.KindDev, mounts.KindProc:
			if links.Inside(bind.Target, plan[i].Target) {
				at = i
			}
		}
	}
	if at < 0 {
		return append(plan, bind), nil
	}
	// Changed plans are new ones: the caller's may be used again.
	plan = slices.Clone(plan)
	cover := &plan[at]
	exists := host.IsDir(bind.Target)
	switch {
	case cover.Kind == mounts.KindTmpfs:
	case exists && (mirror || cover.Kind != mounts.KindBind || !cover.ReadOnly || cover.Source != cover.Target):
	case cover.Kind == mounts.KindOverlay:
		rel, err := filepath.Rel(cover.Target, bind.Target)
		if err != nil {
			return nil, err
		}
		cover.Dirs = append(slices.Clip(cover.Dirs), rel)
	case cover.Kind != mounts.KindBind || !cover.ReadOnly || cover.Source != cover.Target:
		return plan, fmt.Errorf("%s is missing, and would have to be made in a directory that commands write to", escape.Quote(bind.Target))
	default:
		if table == nil {
			if table, err = mounts.ReadMountinfo(); err != nil {
				return plan, err
			}
		}
		if exists && host.MountBelow(table, home) != "" {
			break
		}
		if mirror || host.MountBelow(table, home) != "" {
			if _, err := os.Lstat(bind.Target); err == nil {
				return plan, fmt.Errorf("%s is not a directory", escape.Quote(bind.Target))
			}
			made, err := append(slices.Clip(plan[:at+1]), bind).CreateMountPoints()
			if err != nil {
				return plan, err
			}
			return append(made, plan[at+1:]...), nil
		}
		fi, err := os.Stat(home)
		if err != nil {
			return plan, err
		}
		over := mounts.Mount{
			Kind: mounts.KindOverlay, Target: home, Lower: []string{home}, ReadOnly: true, Dirs: []string{host.PlaygroundName},
		}
		if exists {
			over.Dirs = nil // hideLater has something for it, or takes it out
		}
		plan = slices.Insert(plan, at+1, over.WithPerm(fi.Mode()&(os.ModePerm|os.ModeSticky)))
	}
	return append(plan, bind), nil
}
