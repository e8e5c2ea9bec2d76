//go:build linux

package host

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// StateDir is the directory of sessions; the caller may give one.
func StateDir(named string) (string, error) {
	if named == "" {
		return overlay.DefaultDir()
	}
	return filepath.Abs(named)
}

// Own are the directories that commands must not see: those of sessions, of data and of copies, and others. The
// playgrounds are in the directory of data.
func Own(home, stateDir string, others []string) (list []plan.Own, data string) {
	add := func(dir string) {
		if dir != "" && !slices.ContainsFunc(list, func(o plan.Own) bool { return o.Dir == dir }) {
			list = append(list, plan.Own{Dir: dir, At: Nearest(dir)})
		}
	}
	add(stateDir)
	if state, err := overlay.DefaultDir(); err == nil {
		add(filepath.Dir(state))
	}
	data = DataDir(home)
	add(data)
	add(CacheDir(home))
	for _, dir := range others {
		add(dir)
	}
	return list, data
}

// MakeOwn creates nsrun's missing directories that would lie in a root of a session. Only what exists can be hidden: if
// a command created such a directory itself, with a registry in it, a commit would put it in place.
func MakeOwn(list []plan.Own, roots []string) error {
	for i, own := range list {
		if own.At == own.Dir || !paths.InAny(own.At, roots) {
			continue
		}
		if err := sys.MkdirAll(own.Dir, 0o700); err != nil {
			return &plan.Error{Op: "make directory", Path: own.Dir, Err: sys.Bare(err)}
		}
		list[i].At = Nearest(own.Dir)
	}
	return nil
}

// MakeState creates nsrun's directory of sessions, if possible: a mount can only cover what exists.
func MakeState(list []plan.Own) {
	name, err := overlay.DefaultDir()
	if err != nil {
		return
	}
	dir, _, err := owndir.Open(name, true)
	if err != nil {
		return
	}
	dir.Close()
	for i := range list {
		list[i].At = Nearest(list[i].Dir)
	}
}

// Copies finds the directory of copies among nsrun's own, if commands can write to its parent, the user's cache
// directory. It can be hidden only if it exists, so it is created if it is missing; with explain it is only assumed to
// exist.
func Copies(list []plan.Own, writable []string, explain bool) {
	_, cache, err := project.DefaultDirs()
	i := slices.IndexFunc(list, func(o plan.Own) bool { return o.Dir == cache })
	if err != nil || i < 0 || !slices.Contains(writable, filepath.Dir(cache)) {
		return
	}
	own := &list[i]
	if explain {
		own.Copies = own.At == cache && IsDir(cache) || own.At == filepath.Dir(cache) && !Exists(cache)
		return
	}
	_ = sys.Mkdir(unix.AT_FDCWD, cache, 0o700) // it may be there
	own.At = Nearest(cache)
	own.Copies = own.At == cache && IsDir(cache)
}
