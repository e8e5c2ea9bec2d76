//go:build linux

package host

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// A playground is a directory for experiments: what commands write to $HOME/playground stays, and is neither in a
// project nor behind an overlay. Each project has its own, because other projects may have other rules. On the host it
// is elsewhere, and nothing is left in the home directory: if a mount point is missing there, the sandbox sees the home
// directory through an overlay with one more directory in it.

const projectPlaygrounds = "playgrounds"

// DefaultPlayground is the playground of commands without a project:
// $XDG_DATA_HOME/nsrun/playground, or the same in ~/.local/share.
func DefaultPlayground() (string, error) { return Playground("") }

// Playground is the playground of a project, an absolute path without symbolic
// links: a directory in $XDG_DATA_HOME/nsrun/playgrounds. Its name ends with a digest of
// the path. An empty project is as for DefaultPlayground.
func Playground(project string) (string, error) {
	dir := DataDir(Home())
	switch {
	case dir == "":
		return "", &plan.Error{Op: "find playground", Err: plan.ErrNoHome}
	case project == "":
		return filepath.Join(dir, plan.PlaygroundName), nil
	case !filepath.IsAbs(project):
		return "", &plan.Error{Op: "find playground", Path: project, Err: plan.ErrNotAbsolute}
	}
	project = filepath.Clean(project)
	sum := githash.SumSHA256([]byte(project))
	name := hex.EncodeToString(sum[:16])
	if readable := plainName(filepath.Base(project)); readable != "" {
		name = readable + "-" + name
	}
	return filepath.Join(dir, projectPlaygrounds, name), nil
}

// plainName keeps of a name the characters that are safe in every file name and on every terminal.
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

// Playgrounds are the existing playgrounds: that of commands without a project, then those of projects, sorted by name.
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
		return dirs, &plan.Error{Op: "find playgrounds", Path: all, Err: sys.Bare(err)}
	}
	for _, entry := range entries {
		dirs = append(dirs, filepath.Join(all, entry.Name()))
	}
	return dirs, nil
}

// openPlayground opens the directory, and creates it if asked to.
func openPlayground(dir string, create bool) (fd int, st unix.Stat_t, err error) {
	fail := func(err error) (int, unix.Stat_t, error) {
		return -1, st, &plan.Error{Op: "open playground", Path: dir, Err: err}
	}
	if !filepath.IsAbs(dir) {
		return fail(plan.ErrNotAbsolute)
	}
	open := func() (int, error) {
		return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	fd, err = open()
	if err == unix.ENOENT && create {
		if err := sys.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return fail(sys.Bare(err))
		}
		if err := sys.Mkdir(unix.AT_FDCWD, dir, 0o700); err != nil && err != unix.EEXIST {
			return fail(err)
		}
		fd, err = open()
	}
	if err != nil {
		return fail(err)
	}
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = takeBack(fd, dir, &st)
	}
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return fd, st, nil
}

// takeBack makes root the owner of its playground again: in a session, root's command can give it away. It is an error
// if the directory is not one that only nsrun can have made.
func takeBack(fd int, dir string, st *unix.Stat_t) error {
	own := DataDir(Home())
	var parent unix.Stat_t
	if os.Geteuid() != 0 || own == "" || !paths.Inside(dir, own) || unix.Lstat(filepath.Dir(dir), &parent) != nil || parent.Uid != 0 ||
		parent.Mode&0o077 != 0 {
		return errors.New("it is not yours")
	}
	if err := unix.Fchownat(fd, "", 0, 0, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	return unix.Fstat(fd, st)
}

// PlaygroundUsage is how much there is in a playground.
type PlaygroundUsage struct {
	Dir   string
	Files int   // directories not counted
	Bytes int64 // on disk
}

// MeasurePlayground measures a playground; an empty dir means DefaultPlayground. A missing playground is empty.
func MeasurePlayground(dir string) (PlaygroundUsage, error) { return eachInPlayground(dir, false) }

// CleanPlayground removes the content of a playground, and returns how much that was. It removes links and never
// follows them. It leaves what is mounted in the playground, and then returns an error.
func CleanPlayground(dir string) (PlaygroundUsage, error) { return eachInPlayground(dir, true) }

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
		return u, &plan.Error{Op: op, Path: filepath.Join(dir, failed.Path), Err: failed.Err}
	}
	return u, err
}

// Played returns how much there is in a playground, as du(1) counts it, with directories. Its owner is the caller. It
// skips what it cannot read, and returns the first such error.
func Played(dir string) (bytes, files int64, err error) {
	fd, _, err := openPlayground(dir, false)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	u := PlaygroundUsage{}
	count := u.counter()
	err = deep.Walk(fd, func(st *unix.Stat_t) {
		count(st)
		files++
	})
	return u.Bytes, files, err
}

// counter returns a function that adds to u, and counts files with several names once.
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

// A PlaygroundQuery is what FindPlayground needs to know.
type PlaygroundQuery struct {
	Dir     string        // as it is named; empty: that of Project
	Project string        // empty: none
	HomeAt  string        // the home directory, without symbolic links; empty: nobody knows
	Table   []mounts.Info // the host's mounts
	Mirror  bool          // no overlay can be laid over the home directory
	Create  bool          // it is made if it is missing
}

// FindPlayground finds or creates the playground, and what is needed to show it.
func FindPlayground(q PlaygroundQuery) (p plan.Playground) {
	if p.Dir = q.Dir; p.Dir == "" {
		if p.Dir, p.Err = Playground(q.Project); p.Err != nil {
			return p
		}
	}
	p.At = p.Dir
	fd, st, err := openPlayground(p.Dir, q.Create)
	switch {
	case err == nil:
		p.Same = fileID(&st)
		if text, err := os.Readlink(sys.ProcPath(fd)); err == nil && filepath.IsAbs(text) {
			p.At = text
		}
		unix.Close(fd)
	case q.Create || !errors.Is(err, unix.ENOENT):
		if p.Err = err; q.Dir == "" {
			p.Err = homedir.Elsewhere(err, "XDG_DATA_HOME")
		}
		return p
	}
	if q.HomeAt == "" || q.HomeAt == "/" {
		return p
	}
	point := plan.PlaygroundPoint(q.HomeAt)
	switch {
	case IsDir(point):
		p.Point = plan.DirPoint
	case Exists(point):
		p.Point = plan.OtherPoint
	case q.Mirror || plan.Below(q.Table, q.HomeAt) != "":
		bind := mounts.Bind(p.Dir, point)
		bind.Same = p.Same
		if p.Mirror, p.MirrorErr = (mounts.Plan{mounts.ROBind("/", "/"), bind}).CreateMountPoints(); p.MirrorErr == nil {
			p.Mirror = p.Mirror[1:]
		}
	}
	return p
}
