//go:build linux

package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/runslater"
	"github.com/nsrun/nsrun/internal/sys"
)

// What a command writes in place is never held back. Instead, nsrun reports what runs later: new or changed files at
// the top of the folders, and in the directories there in which programs look for their settings; new repositories that
// git would obey; and, anywhere, what a watcher saw.

// Later finds what runs later among the files that a command writes in place. The zero Later is for a command that
// writes nothing in place.
type Later struct {
	dirs    []string        // folders, and directories of rules, that are written to
	files   []string        // of rules, that are written to
	watched []string        // those folders that a watcher looks at
	paths   []string        // at which nothing was
	known   map[string]bool // work trees that were there
	old     oldView
	seen    []string // by the watcher
	began   time.Time
	since   unix.Timespec // from when on a file is new; set by Notice
}

// NewLater is for a command that writes to folders.
func NewLater(folders []string, in InPlace) Later {
	return Later{dirs: folders, watched: folders, paths: in.Later, known: in.Known}
}

const (
	maxLater = 10_000 // entries that are looked at, and paths that the watcher saw
	maxNames = 1000   // of one directory
	maxTold  = 5
)

// Add adds what rules make writable.
func (l *Later) Add(in *InPlace) {
	l.dirs, l.files, l.paths = slices.Concat(l.dirs, in.Dirs), slices.Concat(l.files, in.Files), slices.Concat(l.paths, in.Later)
	if l.known == nil {
		l.known = make(map[string]bool)
	}
	maps.Copy(l.known, in.Known)
}

// Found adds what was found in the folders at the end.
func (l *Later) Found(in InPlace) {
	l.paths = append(slices.Clip(l.paths), in.Later...)
	for top := range in.Known {
		l.known[top] = true
	}
}

// Remember must be called before the command starts: it records the content of git directories that the command may
// write to.
func (l *Later) Remember() {
	for _, dir := range l.dirs {
		if !l.known[dir] {
			l.old.git(filepath.Join(dir, ".git"))
		}
		l.old.git(dir)
	}
}

func (l *Later) none() bool { return len(l.dirs)+len(l.files)+len(l.paths) == 0 }

// Begin must be called when the command was started; it takes the time of the start.
func (l *Later) Begin(began time.Time) { l.began = began }

// start is the earliest time stamp of files of a command that began when the clock showed wall, and ended now, when the
// clock shows end: the clock may have been set back meanwhile.
func start(wall, end time.Time, ran time.Duration) time.Time {
	if back := end.Add(-ran); back.Before(wall) {
		wall = back
	}
	return wall.Add(-20 * time.Millisecond) // time stamps of files can be up to one tick late
}

// Saw adds a file below a folder that a watcher saw written.
func (l *Later) Saw(folder, name string) {
	if len(l.seen) >= maxLater || !slices.Contains(l.watched, folder) {
		return
	}
	if path := filepath.Join(folder, name); !slices.Contains(l.seen[max(0, len(l.seen)-16):], path) {
		l.seen = append(l.seen, path)
	}
}

// Notice is one line about what runs later. Empty: nothing was found.
func (l *Later) Notice() string {
	if l.none() {
		return ""
	}
	now := time.Now()
	l.since = unix.NsecToTimespec(start(l.began.Round(0), now.Round(0), now.Sub(l.began)).UnixNano())
	v := &hostView{}
	for _, path := range slices.Concat(l.dirs, l.files, l.paths) {
		v.roots = append(v.roots, hostRoot{path, []string{path}})
	}
	c := runslater.Classifier{Roots: slices.Clone(l.dirs), Old: &l.old, New: v, Own: own}
	for _, path := range slices.Concat(l.files, l.paths) {
		c.Roots = append(c.Roots, filepath.Dir(path))
	}
	reasons := map[string]string{}
	take := func(path string) {
		if reason := c.Reason(runslater.Change{Path: path, Kind: v.Kind(path), Content: true, Executable: true}); reason != "" {
			reasons[path] = reason
		}
	}
	left := maxLater
	for _, dir := range l.dirs {
		v.all(dir, func(in *os.File, e os.DirEntry) {
			path := filepath.Join(dir, e.Name())
			if !c.Plain(dir, e.Name()) && (e.Name() != "objects" || l.old.kinds[dir] == 0) {
				l.look(v, path, 0, &left, take)
			}
			if e.IsDir() && e.Name() != ".git" && !l.known[path] && l.changed(in, e.Name()) {
				l.repository(v, path, &left, take)
			}
		})
	}
	for _, path := range l.files {
		l.look(v, path, 0, &left, take)
	}
	for _, path := range l.paths {
		switch {
		case filepath.Base(path) == ".git":
			l.look(v, path, 0, &left, take)
		case Exists(path):
			reasons[path] = "git obeys it"
		}
	}
	for _, path := range l.seen {
		take(path)
	}
	if len(reasons) == 0 && left >= 0 {
		return ""
	}
	list := make([]string, 0, len(reasons))
	for path, reason := range reasons {
		list = append(list, escape.Quote(path)+" ("+reason+")")
	}
	slices.Sort(list)
	if more := len(list) - maxTold; more > 0 {
		list = append(list[:maxTold], fmt.Sprintf("%d more", more))
	}
	if left < 0 {
		list = append(list, "and perhaps more: there were too many changes to check all of them")
	}
	return "written in place, and run later by itself: " + strings.Join(list, ", ")
}

// changed reports whether a directory may have other names than when the command began. If it was no repository then,
// and its names are the same, it is no repository now.
func (l *Later) changed(in *os.File, dir string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(in.Fd()), dir, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || l.after(&st)
}

// after reports whether something was changed since the command began.
func (l *Later) after(st *unix.Stat_t) bool {
	return st.Ctim.Sec > l.since.Sec || st.Ctim.Sec == l.since.Sec && st.Ctim.Nsec >= l.since.Nsec
}

// repository takes what is new of a repository that may be one level below a folder.
func (l *Later) repository(v *hostView, path string, left *int, take func(string)) {
	l.look(v, filepath.Join(path, ".git"), 0, left, take)
	if _, ok := v.stat(filepath.Join(path, "HEAD")); ok && isGitDir(path) {
		for _, name := range [...]string{"config", "config.worktree", "commondir", "hooks", "index", "MERGE_RR"} {
			l.look(v, filepath.Join(path, name), 1, left, take)
		}
	}
}

// look adds what is new at or below a path.
func (l *Later) look(v *hostView, path string, depth int, left *int, take func(string)) {
	if *left < 0 || depth > 4 {
		return
	}
	st, ok := v.stat(path)
	if !ok {
		return
	}
	*left--
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		if l.after(&st) {
			take(path)
		}
	case filepath.Base(path) == ".git" && l.known[filepath.Dir(path)]: // read-only
	default:
		v.all(path, func(_ *os.File, e os.DirEntry) {
			if e.Name() != "objects" {
				l.look(v, filepath.Join(path, e.Name()), depth+1, left, take)
			}
		})
	}
}

// An oldView has the earlier content of the git directories that a command may write to, and nothing else: no other
// earlier content is known.
type oldView struct {
	kinds map[string]runslater.Kind
	texts map[string]string
}

// git adds the files that make a directory a git directory, if it is one, and its configuration.
func (o *oldView) git(dir string) {
	if !isGitDir(dir) {
		return
	}
	if o.kinds == nil {
		o.kinds, o.texts = map[string]runslater.Kind{}, map[string]string{}
	}
	o.kinds[dir] = runslater.Directory
	v := hostView{roots: []hostRoot{{dir, []string{dir}}}}
	for _, name := range [...]string{"HEAD", "commondir", "objects", "refs", "hooks", "config", "config.worktree"} {
		at := filepath.Join(dir, name)
		if o.kinds[at] = v.Kind(at); o.kinds[at] == runslater.File {
			o.texts[at], _ = v.Read(at)
		}
	}
}

func (o *oldView) Kind(path string) runslater.Kind { return o.kinds[path] }

// Read is for runslater.View.
func (o *oldView) Read(path string) (string, bool) {
	text, ok := o.texts[path]
	return text, ok
}

// Target is for runslater.View.
func (*oldView) Target(string) string { return "" }

// Names is for runslater.View.
func (*oldView) Names(string) []string { return nil }

// Survey is for runslater.View.
func (*oldView) Survey(string, string, func(string) bool) (names, holding []string) { return nil, nil }

// A hostView is the present content of some directories. A command may still write to them.
type hostView struct{ roots []hostRoot }

// A hostRoot looks a path up in several directories: the first one that has it counts.
type hostRoot struct {
	path string
	dirs []string
}

// open opens a path, and follows no link.
func (v *hostView) open(path string, flags uint64) (fd int, err error) {
	err = unix.ENOENT
	for _, root := range v.roots {
		rel, ok := strings.CutPrefix(path, root.path)
		if !ok || !paths.Inside(path, root.path) {
			continue
		}
		for _, dir := range root.dirs {
			if fd, err = sys.Openat2(unix.AT_FDCWD, dir+rel, flags|unix.O_NOFOLLOW, 0, unix.RESOLVE_NO_SYMLINKS); err == nil {
				return fd, nil
			}
		}
	}
	return -1, err
}

func (v *hostView) stat(path string) (st unix.Stat_t, ok bool) {
	fd, err := v.open(path, unix.O_PATH)
	if err != nil {
		return st, false
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st) == nil
}

func (v *hostView) Kind(path string) runslater.Kind {
	st, ok := v.stat(path)
	if !ok {
		return runslater.Missing
	}
	return runslater.KindOf(st.Mode)
}

// Read is for runslater.View.
func (v *hostView) Read(path string) (string, bool) {
	fd, err := v.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return "", false
	}
	f, size, err := regular(fd, runslater.MaxFile(path))
	if err != nil {
		return "", false
	}
	text, err := readAll(f, size)
	return text, err == nil
}

// Target is for runslater.View.
func (v *hostView) Target(path string) string {
	fd, err := v.open(path, unix.O_PATH)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err != nil {
		return ""
	}
	return string(text[:n])
}

// Names is for runslater.View.
func (v *hostView) Names(path string) []string {
	fd, err := v.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, _ := f.Readdirnames(maxNames)
	return names
}

// Survey is for runslater.View.
func (v *hostView) Survey(path, name string, want func(string) bool) (names, holding []string) {
	for _, dir := range v.Names(path) {
		if want(dir) {
			names = append(names, dir)
		}
		if v.Kind(filepath.Join(path, dir, name)) != runslater.Missing {
			holding = append(holding, dir)
		}
	}
	return names, holding
}

// all calls yield for everything in a directory.
func (v *hostView) all(path string, yield func(in *os.File, e os.DirEntry)) {
	fd, err := v.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	_ = entries(f, func(e os.DirEntry) { yield(f, e) })
}

// own is for runslater.Classifier.
func own(path string) (real string, in bool) {
	home := Home()
	return owndir.Within(path, []string{homedir.State(home), homedir.Data(home), homedir.Cache(home)})
}

// A Place is a directory in which what is written in a folder appears.
type Place struct{ Dir, Folder string }

// A Live says what runs later among the files that are being written. It must be used by one goroutine.
type Live struct {
	c runslater.Classifier
	v hostView
}

// NewLive is for what is written in places.
func NewLive(places []Place) *Live {
	l := &Live{}
	l.c.Own = own
	old := &hostView{}
	l.c.Old, l.c.New = old, &l.v
	for _, p := range places {
		l.c.Roots = append(l.c.Roots, p.Folder)
		if p.Dir == p.Folder {
			l.v.roots = append(l.v.roots, hostRoot{p.Folder, []string{p.Folder}})
			continue
		}
		old.roots = append(old.roots, hostRoot{p.Folder, []string{p.Folder}})
		l.v.roots = append(l.v.roots, hostRoot{p.Folder, []string{p.Dir, p.Folder}})
	}
	return l
}

// Reason says why a file that was written in a folder, or that got the permissions mode, runs later. Empty: it does
// not.
func (l *Live) Reason(folder, name string, mode bool) string {
	if l.c.Plain(folder, name) {
		return ""
	}
	path := filepath.Join(folder, name)
	return l.c.Reason(runslater.Change{Path: path, Kind: l.v.Kind(path), Content: !mode, Executable: mode})
}
