//go:build linux

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/gitindex"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/runslater"
	"github.com/nsrun/nsrun/internal/sys"
)

// A work tree contains more than its .git that git executes or obeys: the repositories of submodules and linked work
// trees, directories of hooks and files that a configuration names, and nested repositories. All of these are read-only
// where a command writes in place.
//
// They are found in git's own files, and by listing each top directory once; the tree is not searched. What is not
// found in this way, or does not exist yet, cannot be protected; see later.go.

const (
	maxDepth   = 10      // of files that include one another, of submodules in submodules
	maxModules = 10_000  // directories in .git/modules
	indexMost  = 1 << 28 // bytes
)

var (
	errNested = errors.New("too many nested repositories")
	errMany   = errors.New("it has too many submodules")
)

// tree protects what git uses in a writable directory, except what rest finds.
func (d *direct) tree(root string) error {
	top := root
	for !Exists(filepath.Join(top, ".git")) && top != filepath.Dir(top) {
		top = filepath.Dir(top)
	}
	d.outer = top
	err := d.repository(top, 0)
	d.outer = ""
	// A part of a repository above the directory may lie in the directory. If the caller cannot read that
	// repository, git executes nothing of it for the caller.
	if err != nil && (top == root || !errors.Is(err, os.ErrPermission)) {
		return err
	}
	if top != root {
		d.note(filepath.Join(root, ".git"))
	}
	return nil
}

// rest protects what git uses in a writable directory because an index names it (an index may be large), or because it
// lies one level below. Usually there is nothing of the kind.
func (d *direct) rest(root string) error {
	for top := root; ; top = filepath.Dir(top) {
		if dir := d.indexes[top]; dir != "" {
			delete(d.indexes, top)
			if err := d.staged(top, dir, "index", 0); err != nil && (top == root || !errors.Is(err, os.ErrPermission)) {
				return err
			}
		}
		if top == filepath.Dir(top) {
			break
		}
	}
	if !IsDir(root) {
		return nil
	}
	return d.below(root)
}

// below protects the repositories one level below a directory, however many names it has, so that a command cannot hide
// one among many.
func (d *direct) below(root string) error {
	f, err := openDir(root)
	if err != nil {
		return err
	}
	defer f.Close()
	return entries(f, func(e os.DirEntry) {
		at := filepath.Join(root, e.Name())
		switch {
		case e.Name() == ".git":
			return
		case e.IsDir():
		case e.Type()&os.ModeSymlink == 0:
			return
		default:
			if at, err = filepath.EvalSymlinks(at); err != nil || !d.holds(at) || d.closed(at) {
				return
			}
		}
		if existsAt(f, e.Name()+"/.git") {
			d.inner(at, 0)
		}
		if existsAt(f, e.Name()+"/HEAD") && isGitDir(at) {
			d.bareRepository(at)
		}
	})
}

// Entries calls yield for each entry of a directory.
func entries(dir *os.File, yield func(os.DirEntry)) error {
	for {
		list, err := dir.ReadDir(1000)
		for _, e := range list {
			yield(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isGitDir reports whether git takes a directory for one of its own.
func isGitDir(dir string) bool {
	has := func(name string) bool { return Exists(filepath.Join(dir, name)) }
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

func existsAt(dir *os.File, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// note records a path that does not exist and that a command could create.
func (d *direct) note(path string) {
	if d.holds(path) && !d.closed(path) && !Exists(path) {
		d.later = append(d.later, path)
	}
}

// inner protects a repository that somebody may have put into the tree. An error in it does not stop the command.
func (d *direct) inner(top string, depth int) { d.short(top, d.repository(top, depth)) }

// bareRepository protects a repository without a work tree.
func (d *direct) bareRepository(dir string) {
	if _, known := d.at[dir]; known || d.seen[dir] {
		return
	}
	d.seen[dir] = true
	err := d.gitDir(dir)
	if err == nil {
		err = d.uses(dir, dir, 0)
	}
	d.short(dir, err)
}

// short says why not everything is protected.
func (d *direct) short(top string, err error) {
	if err != nil {
		d.notices = append(d.notices, fmt.Sprintf("not all that git uses in %s is read-only: %s", escape.Quote(top), sys.Bare(err)))
	}
}

// repository protects what git uses for a work tree.
func (d *direct) repository(top string, depth int) error {
	if d.seen[top] {
		return nil
	}
	if depth > maxDepth {
		return errNested
	}
	d.seen[top] = true
	dir, err := d.git(filepath.Join(top, ".git"))
	if err != nil {
		return err
	}
	if dir == "" {
		d.note(filepath.Join(top, ".git"))
		return nil
	}
	return d.uses(top, dir, depth)
}

// uses protects what git uses because of a git directory, outside that directory.
func (d *direct) uses(top, dir string, depth int) error {
	common := dir
	if text, err := readPlain(filepath.Join(dir, "commondir")); err == nil {
		common = filepath.Clean(resolve(dir, strings.TrimRight(text, "\r\n")))
	}
	if !d.holds(common) { // and what is in it may have another name that is
		for _, name := range [...]string{"config", "hooks"} {
			if err := d.alone(filepath.Join(common, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range [...]string{filepath.Join(common, "config"), filepath.Join(dir, "config.worktree")} {
		if err := d.config(name, top, 0, true); err != nil {
			return err
		}
	}
	for _, c := range d.globals() {
		if err := d.leads(c, top, 0, false); err != nil {
			return err
		}
	}
	if err := d.submodules(top, common, depth); err != nil {
		return err
	}
	if top == d.outer {
		d.indexes[top] = dir
	} else if err := d.staged(top, dir, "index", depth); err != nil {
		return err
	}
	names, _ := readNames(filepath.Join(common, "worktrees"))
	for _, name := range names {
		if text, err := readPlain(filepath.Join(common, "worktrees", name, "gitdir")); err == nil {
			d.submodule(filepath.Dir(resolve(filepath.Join(common, "worktrees", name), strings.TrimRight(text, "\r\n"))), depth)
		}
	}
	return nil
}

// alone refuses files outside the roots that have another hard link.
func (d *direct) alone(path string) error {
	names, err := readNames(path)
	if err != nil {
		return single(path)
	}
	for _, name := range names {
		if err := single(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// submodules protects those of a work tree: by .gitmodules, which is read-only so that it says
// the same next time, and by their git directories.
func (d *direct) submodules(top, common string, depth int) error {
	name := filepath.Join(top, ".gitmodules")
	if text, err := readPlain(name); err == nil {
		if d.holds(name) {
			d.at[name] = false
		}
		for _, l := range runslater.Leads(text) {
			if l.Kind == runslater.LeadSubmodule && !filepath.IsAbs(l.Path) {
				d.submodule(filepath.Join(top, l.Path), depth)
			}
		}
	}
	left := maxModules
	return d.modules(filepath.Join(common, "modules"), depth, &left, 0)
}

// staged protects the submodules that only the index lists, not .gitmodules: git status looks into these, too. An
// unreadable index could hide some: git refuses it now, but somebody may repair it.
func (d *direct) staged(top, dir, name string, depth int) error {
	at := filepath.Join(dir, name)
	f, size, err := openRegular(at, indexMost)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	var paths []string
	var shared string
	if err == nil {
		defer f.Close()
		paths, shared, err = gitindex.Submodules(f, size)
	}
	if err != nil {
		return &os.PathError{Op: "read", Path: at, Err: sys.Bare(err)}
	}
	for _, path := range paths {
		d.submodule(filepath.Join(top, path), depth)
	}
	if shared == "" || name != "index" {
		return nil
	}
	return d.staged(top, dir, "sharedindex."+shared, depth)
}

// modules walks the git directories of submodules, whose names can contain slashes.
func (d *direct) modules(dir string, depth int, left *int, level int) error {
	names, _ := readNames(dir)
	for _, name := range names {
		at := filepath.Join(dir, name)
		if *left--; *left < 0 || level > maxDepth {
			return errMany
		}
		if !Exists(filepath.Join(at, "HEAD")) {
			if err := d.modules(at, depth, left, level+1); err != nil {
				return err
			}
			continue
		}
		text, _ := readPlain(filepath.Join(at, "config"))
		for _, l := range runslater.Leads(text) {
			if l.Kind == runslater.LeadWorkTree {
				d.submodule(filepath.Clean(resolve(at, l.Path)), depth)
			}
		}
	}
	return nil
}

// submodule protects a nested work tree. One that is not checked out is an empty directory; git status would obey a
// repository that appears there.
func (d *direct) submodule(top string, depth int) {
	if len(top) >= unix.PathMax || !d.holds(top) || d.closed(top) {
		return
	}
	if real, err := filepath.EvalSymlinks(top); err == nil && real != top {
		return // git follows no link to a submodule
	}
	switch {
	case Exists(filepath.Join(top, ".git")):
		d.inner(top, depth+1)
	case IsDir(top) && Empty(top) && !d.at[top]:
		d.at[top] = false
	default:
		d.note(filepath.Join(top, ".git"))
	}
}

// A configuration is a file and the paths that it names.
type configuration struct {
	name  string
	leads []runslater.Lead
}

func (d *direct) globals() []configuration {
	if d.global != nil {
		return d.global
	}
	d.global = []configuration{}
	home := Home()
	for _, name := range [...]string{"/etc/gitconfig", xdgConfig(home), filepath.Join(home, ".gitconfig")} {
		if home == "" && name != "/etc/gitconfig" {
			continue
		}
		real, err := links.Follow(name, func(string) bool { return false })
		if err != nil {
			d.note(name)
			continue
		}
		if d.holds(real) {
			d.at[real] = false // kept in a work tree, or in a directory of --rw
		}
		if text, err := readPlain(name); err == nil {
			d.global = append(d.global, configuration{name, runslater.Leads(text)})
		}
	}
	return d.global
}

func xdgConfig(home string) string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "git", "config")
}

// config protects what a configuration names for a work tree; own says that it is the repository's own configuration.
func (d *direct) config(name, top string, depth int, own bool) error {
	text, err := readPlain(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil
		}
		return &os.PathError{Op: "read", Path: name, Err: sys.Bare(err)}
	}
	return d.leads(configuration{name, runslater.Leads(text)}, top, depth, own)
}

func (d *direct) leads(c configuration, top string, depth int, own bool) error {
	for _, l := range c.leads {
		from := top
		if l.Kind == runslater.LeadInclude {
			from = filepath.Dir(c.name)
		}
		if l.Kind > runslater.LeadCommand || strings.HasPrefix(l.Path, "%(") {
			continue
		}
		to, err := d.named(c.name, l, from, own)
		if err != nil {
			return err
		}
		if to == "" {
			continue
		}
		if l.Kind == runslater.LeadInclude && depth < maxDepth && d.first(to, top) {
			if err := d.config(to, top, depth+1, own); err != nil {
				return err
			}
		}
		if l.Kind != runslater.LeadHooks || !d.holds(to) {
			continue
		}
		if err := d.hooks(to); err != nil {
			return err
		}
	}
	return nil
}

// first reports whether a configuration is read for the first time for a work tree: one may include itself.
func (d *direct) first(name, top string) bool {
	key := [2]string{name, top}
	was := d.read[key]
	if d.read == nil {
		d.read = make(map[[2]string]bool)
	}
	d.read[key] = true
	return !was
}

// named protects the path that a configuration names, and returns it. Empty: nothing is there.
func (d *direct) named(file string, l runslater.Lead, from string, own bool) (string, error) {
	text := l.Path
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		text = filepath.Join(Home(), rest)
	}
	if text == "" || text[0] == '~' {
		return "", nil
	}
	// A word of a command may not be a path at all. And not every project has the files that a configuration for
	// all repositories names.
	if text = resolve(from, text); len(text) >= unix.PathMax {
		return "", nil // nothing can be there
	}
	if !Exists(text) && (l.Kind == runslater.LeadCommand || !own) {
		if l.Kind != runslater.LeadCommand {
			d.note(filepath.Clean(text))
		}
		return "", nil
	}
	to, err := d.target(l.Key+" of "+file, text)
	if err != nil && l.Kind == runslater.LeadHooks && !Exists(text) {
		err = &helpful{err, "mkdir -p " + escape.Command([]string{filepath.Clean(text)})}
	}
	if err != nil || to == "" || !d.holds(to) {
		return to, err
	}
	if IsDir(to) == (l.Kind != runslater.LeadHooks) {
		return "", nil // git makes no use of it
	}
	if d.at[to] && d.rule {
		return to, nil
	}
	if d.at[to] {
		return "", fmt.Errorf("%s of %s is %s, which commands can write to", l.Key, escape.Quote(file), escape.Quote(to))
	}
	if err := single(to); err != nil && l.Kind == runslater.LeadInclude {
		return "", err
	} else if err != nil {
		d.notices = append(d.notices, err.Error()) // package managers link what is executed
	}
	d.at[to] = false
	return to, nil
}

// hooks protects what else a directory of hooks uses.
func (d *direct) hooks(dir string) error {
	// Husky's hooks execute files beside their directory.
	if up := filepath.Dir(dir); filepath.Base(dir) == "_" && filepath.Base(up) == ".husky" && d.holds(up) {
		d.at[up] = false
	}
	return d.links(dir, false)
}

func readNames(dir string) ([]string, error) {
	f, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// readPlain reads a regular file that is not large, through links.
func readPlain(name string) (string, error) {
	f, size, err := openRegular(name, gitFileMost)
	if err != nil {
		return "", err
	}
	return readAll(f, size)
}

// openRegular opens a regular file of at most so many bytes, through links.
func openRegular(name string, most int64) (f *os.File, size int64, err error) {
	// Opening a device or a FIFO has side effects.
	path, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return nil, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, errNotGits
	}
	fd, err := unix.Open(sys.ProcPath(path), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	return regular(fd, most)
}

var errNotGits = errors.New("git has no such file")

// regular is a descriptor as a file, if that is a regular one of at most so many bytes. Else the descriptor is closed.
func regular(fd int, most int64) (f *os.File, size int64, err error) {
	f = os.NewFile(uintptr(fd), "")
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > most) {
		err = errNotGits
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// readSmall reads a regular file that is not large, and closes it.
func readSmall(fd int) (string, error) {
	f, size, err := regular(fd, gitFileMost)
	if err != nil {
		return "", err
	}
	return readAll(f, size)
}

// readAll reads so many bytes of a file, or less if that has become shorter, and closes it.
func readAll(f *os.File, size int64) (string, error) {
	defer f.Close()
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return string(b[:n]), err
}

// A helpful error says what to type. If an error has a method Try, callers that usually add a hint add none.
type helpful struct {
	error
	try string
}

func (e *helpful) Error() string { return e.error.Error() + " (try: " + e.try + ")" }
func (e *helpful) Unwrap() error { return e.error }

// Try is the command to type.
func (e *helpful) Try() string { return e.try }
