//go:build linux

package nsrun

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/mounts"
)

// A playground is a directory for experiments: what commands write to $HOME/playground
// stays, and is neither in a project nor behind an overlay. Each project has its own, so
// that commands leave nothing there for those of other projects, which other rules may
// hold for. On the host it is elsewhere,
// and nothing is left in the home directory: where a mount point is missing there, the
// sandbox sees the home directory through an overlay with one more directory in it.

// playgroundName is the playground's name in the home directory, and the word for it.
const playgroundName = "playground"

// projectPlaygrounds is the directory that holds those of projects.
const projectPlaygrounds = "playgrounds"

// DefaultPlayground is the playground of commands without a project:
// $XDG_DATA_HOME/nsrun/playground, or the same in ~/.local/share.
func DefaultPlayground() (string, error) { return ProjectPlayground("") }

// ProjectPlayground is the playground of a project, an absolute path without symbolic
// links: a directory in $XDG_DATA_HOME/nsrun/playgrounds. Its name ends with a digest of
// the path. An empty project is as for DefaultPlayground.
func ProjectPlayground(project string) (string, error) {
	dir := dataDir(homeDir())
	switch {
	case dir == "":
		return "", &Error{Op: "find playground", Err: errNoHome}
	case project == "":
		return filepath.Join(dir, playgroundName), nil
	case !filepath.IsAbs(project):
		return "", &Error{Op: "find playground", Path: project, Err: errNotAbsolute}
	}
	project = filepath.Clean(project)
	sum := githash.SumSHA256([]byte(project))
	name := hex.EncodeToString(sum[:16])
	if readable := plainName(filepath.Base(project)); readable != "" {
		name = readable + "-" + name
	}
	return filepath.Join(dir, projectPlaygrounds, name), nil
}

// plainName is what of a name can stand in every file name and on every terminal.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return -1
	}, name)
	return name[:min(len(name), 32)]
}

// Playgrounds are the playgrounds that there are: that of commands without a project, then
// those of projects, sorted by name.
func Playgrounds() (dirs []string, err error) {
	common, err := DefaultPlayground()
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(common); err == nil {
		dirs = append(dirs, common)
	}
	all := filepath.Join(filepath.Dir(common), projectPlaygrounds)
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return dirs, &Error{Op: "find playgrounds", Path: all, Err: bare(err)}
	}
	for _, entry := range entries {
		dirs = append(dirs, filepath.Join(all, entry.Name()))
	}
	return dirs, nil
}

var errNoHome = errors.New("there is no home directory")

// dataDir is where nsrun keeps data, empty if there is no place for it.
func dataDir(home string) string { return ownDir("XDG_DATA_HOME", home, ".local/share") }

// cacheDir is where nsrun keeps copies.
func cacheDir(home string) string { return ownDir("XDG_CACHE_HOME", home, ".cache") }

// ownDir is nsrun's directory in a base directory (XDG Base Directory Specification).
func ownDir(variable, home, otherwise string) string {
	base := os.Getenv(variable)
	if !filepath.IsAbs(base) { // the specification says to ignore others
		if home == "" {
			return ""
		}
		base = filepath.Join(home, otherwise)
	}
	return filepath.Join(base, "nsrun")
}

// openPlayground opens the directory, and makes it if it is missing and that is wanted.
func openPlayground(dir string, create bool) (fd int, st unix.Stat_t, err error) {
	fail := func(err error) (int, unix.Stat_t, error) {
		return -1, st, &Error{Op: "open playground", Path: dir, Err: err}
	}
	if !filepath.IsAbs(dir) {
		return fail(errNotAbsolute)
	}
	open := func() (int, error) {
		return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	fd, err = open()
	if err == unix.ENOENT && create {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return fail(bare(err))
		}
		if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
			return fail(err)
		}
		fd, err = open()
	}
	if err != nil {
		return fail(err)
	}
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = errors.New("it is not yours")
	}
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return fd, st, nil
}

// bare takes the path off an error that gets one anyway.
func bare(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

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
		return plan, "", errNoHome
	}
	dir, err := c.playgroundDir(project)
	if err != nil {
		return plan, "", err
	}
	real = dir
	bind := mounts.Bind(dir, "")
	fd, st, err := openPlayground(dir, create)
	switch {
	case err == nil:
		bind.Same = fileID(&st)
		if text, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && filepath.IsAbs(text) {
			real = text
		}
		unix.Close(fd)
	case create || !errors.Is(err, unix.ENOENT):
		return plan, "", err
	}
	atHome, err := filepath.EvalSymlinks(home)
	if err != nil {
		return plan, "", &Error{Op: "open home directory", Path: home, Err: bare(err)}
	}
	if atHome == "/" {
		return plan, "", errors.New("the home directory is /")
	}
	bind.Target = filepath.Join(atHome, playgroundName)
	plan, err = mountPoint(plan, bind, atHome, mirror, table)
	return plan, real, err
}

// mountPoint adds a bind to a plan, and the directory that it needs.
func mountPoint(plan mounts.Plan, bind mounts.Mount, home string, mirror bool, table []mounts.Info) (_ mounts.Plan, err error) {
	at := -1
	for i := range plan {
		switch plan[i].Kind {
		case mounts.KindBind, mounts.KindTmpfs, mounts.KindOverlay, mounts.KindDev, mounts.KindProc:
			if inside(bind.Target, plan[i].Target) {
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
	exists := isDir(bind.Target)
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
		if exists && mountBelow(table, home) != "" {
			break
		}
		if mirror || mountBelow(table, home) != "" {
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
			Kind: mounts.KindOverlay, Target: home, Lower: []string{home}, ReadOnly: true, Dirs: []string{playgroundName},
		}
		if exists {
			over.Dirs = nil // hideLater has something for it, or takes it out
		}
		plan = slices.Insert(plan, at+1, over.WithPerm(fi.Mode()&(os.ModePerm|os.ModeSticky)))
	}
	return append(plan, bind), nil
}

// PlaygroundUsage is how much there is in a playground.
type PlaygroundUsage struct {
	Dir   string
	Files int   // directories not counted
	Bytes int64 // on disk
}

// MeasurePlayground measures a playground; an empty dir means DefaultPlayground. One that
// is missing holds nothing.
func MeasurePlayground(dir string) (PlaygroundUsage, error) {
	return eachInPlayground(dir, false)
}

// CleanPlayground removes what is in a playground, and tells what that was. Links are
// removed, never followed, and what is mounted in it stays, which is an error.
func CleanPlayground(dir string) (PlaygroundUsage, error) {
	return eachInPlayground(dir, true)
}

func eachInPlayground(dir string, remove bool) (u PlaygroundUsage, err error) {
	if dir == "" {
		if dir, err = DefaultPlayground(); err != nil {
			return u, err
		}
	}
	u.Dir = dir
	fd, _, err := openPlayground(dir, false)
	if errors.Is(err, unix.ENOENT) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	defer unix.Close(fd)
	count := u.counter()
	if remove {
		err = deep.Empty(fd, count)
	} else {
		err = deep.Walk(fd, count)
	}
	if failed, ok := errors.AsType[*deep.Error](err); ok {
		op := "measure"
		if remove {
			op = "remove"
		}
		return u, &Error{Op: op, Path: filepath.Join(dir, failed.Path), Err: failed.Err}
	}
	return u, err
}

// counter returns what adds to u, files with several names once.
func (u *PlaygroundUsage) counter() func(*unix.Stat_t) {
	seen := make(map[uint64]bool)
	return func(st *unix.Stat_t) {
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if !isDir {
			u.Files++
		}
		if !isDir && seen[st.Ino] {
			return
		}
		if !isDir && st.Nlink > 1 {
			seen[st.Ino] = true
		}
		u.Bytes += st.Blocks * 512
	}
}
