//go:build linux

package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Where a command writes in place (--direct, --rw), it cannot write to a git directory. Git executes what is in there
// for whoever uses the repository next (hooks, commands that configuration names), and follows links and appends to
// files (refs, logs, alternates). Such files are at many places below .git, and each version of git adds some, so all
// of it is read-only. directgit.go has what else git takes from the work tree.

// protectedDirs are directories in a git directory whose links are followed, too.
var protectedDirs = [...]string{"", "info", "hooks"}

// DirectMounts makes the roots writable, except their git directories, unless those may be written to as well. rest
// finds what takes longer to find and usually does not exist. If that needs more mounts, rest reports more, and all are
// all the mounts; otherwise those of near are complete.
func DirectMounts(roots []string, git bool) (near InPlace, rest func() (all InPlace, more bool, err error), err error) {
	d := newDirect()
	for _, root := range roots {
		abs, err := directRoot(root, git)
		if err == nil {
			d.roots = append(d.roots, abs)
			d.at[abs] = true
			continue
		}
		return near, nil, &plan.Error{Op: plan.OpUse, Path: root, Err: err}
	}
	each := func(protect func(root string) error) error {
		for i, root := range d.roots {
			if git {
				break
			}
			if err := protect(root); err != nil {
				return &plan.Error{Op: plan.OpUse, Path: roots[i], Err: err}
			}
		}
		return nil
	}
	if err := each(d.tree); err != nil {
		return near, nil, err
	}
	if near, err = d.mounts(true); err != nil {
		return near, nil, err
	}
	near.Known = maps.Clone(near.Known)
	at, notices := maps.Clone(d.at), len(d.notices)
	return near, func() (all InPlace, more bool, err error) {
		if err := each(d.rest); err != nil {
			return all, false, err
		}
		if more = len(d.notices) > notices || !maps.Equal(d.at, at); !more {
			return InPlace{Plan: near.Plan, Known: d.seen, Later: d.later[len(near.Later):]}, false, nil
		}
		all, err = d.mounts(true)
		return all, true, err
	}, nil
}

// protectGit makes read-only what git uses in directories that a rule makes writable.
func protectGit(dirs []string) (InPlace, error) {
	d := newDirect()
	d.rule, d.roots = true, dirs
	for _, dir := range dirs {
		d.at[dir] = true
	}
	for _, dir := range dirs {
		if err := d.tree(dir); err != nil {
			return InPlace{}, err
		}
		if err := d.rest(dir); err != nil {
			return InPlace{}, err
		}
	}
	return d.mounts(false)
}

type InPlace struct {
	Plan      mounts.Plan
	Known     map[string]bool // work trees that were found
	Dirs      []string        // of rules: directories that they make writable
	Git       []string        // of rules: those of git among them that a rule names
	Files     []string        // of rules: and files
	Later     []string        // paths at which nothing was, and where git would execute or obey what comes there
	Unguarded []string        // why not all that git executes is read-only, in words
}

// add adds what rules make writable, without its mounts.
func (in *InPlace) add(more *InPlace) {
	in.Dirs, in.Files, in.Later = append(in.Dirs, more.Dirs...), append(in.Files, more.Files...), append(in.Later, more.Later...)
	maps.Copy(in.Known, more.Known)
}

// mounts returns the directories with the read-only parts of them, or only the parts.
func (d *direct) mounts(writable bool) (in InPlace, err error) {
	in.Known, in.Later, in.Unguarded = d.seen, d.later, d.notices
	// Parents first: a bind covers what was mounted below it before.
	for _, path := range slices.SortedFunc(maps.Keys(d.at), paths.Compare) {
		if d.at[path] && !writable {
			continue
		}
		m, err := Bind(path, d.at[path])
		if err != nil {
			return InPlace{}, err
		}
		in.Plan = append(in.Plan, m)
	}
	return in, nil
}

// directRoot resolves a root, and checks that it can be one. With git, it may be a git directory.
func directRoot(root string, git bool) (string, error) {
	abs, err := links.Resolve(root, links.Never) // it was resolved already
	if err != nil {
		return "", err
	}
	if abs == "/" {
		return "", errors.New("the whole file system cannot be a root")
	}
	for _, home := range Homes() {
		if real, err := RealPath(home); err == nil && paths.Inside(real, abs) {
			return "", errors.New("it contains the home directory")
		}
	}
	if !git && isGitDir(abs) {
		return "", errors.New("it is a git directory")
	}
	if dir, err := openDir(abs); err == nil {
		defer dir.Close()
		if sys.InKernelFS(sys.FD(dir.Fd())) {
			return "", sys.ErrKernelFS
		}
	}
	return abs, nil
}

// direct collects the mounts over the read-only host.
type direct struct {
	roots []string
	rule  bool            // a rule names the roots: git may use what they are
	at    map[string]bool // whether it is writable, by path

	seen    map[string]bool    // work trees
	read    map[[2]string]bool // included configurations, with the work trees that they are for
	outer   string             // the work tree around a root, while that is looked at
	indexes map[string]string  // of such work trees: the git directory whose index rest is to read
	global  []configuration    // of all repositories; nil: not read yet
	later   []string           // see InPlace
	notices []string
}

func newDirect() *direct {
	return &direct{at: make(map[string]bool), seen: make(map[string]bool), indexes: make(map[string]string)}
}

// git protects what git uses for the work tree with this .git, if there is one, and returns the git directory.
func (d *direct) git(dot string) (dir string, err error) {
	fi, err := os.Lstat(dot)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case fi.IsDir() && d.holds(dot):
		return dot, d.gitDir(dot)
	case fi.IsDir():
		return dot, nil
	case !fi.Mode().IsRegular():
		return "", errors.New("its .git is neither a directory nor a file")
	}
	// In a work tree or a submodule, .git is a file that names the git directory.
	if d.holds(dot) {
		d.at[dot] = false
	}
	return d.follow(dot, "gitdir: ")
}

func (d *direct) gitDir(dir string) error {
	if writable, ok := d.at[dir]; ok && !writable {
		return nil
	}
	d.at[dir] = false
	// Parts of it can lie elsewhere: hooks that are kept in the project.
	for _, sub := range protectedDirs {
		if err := d.links(filepath.Join(dir, sub), sub == ""); err != nil {
			return err
		}
	}
	common := filepath.Join(dir, "commondir")
	if _, err := os.Lstat(common); err != nil {
		return nil
	}
	_, err := d.follow(common, "")
	return err
}

// single refuses a file that has another hard link: nobody can tell where that is, and a command could write through
// it. Hard links of git's samples of hooks do no harm, because git executes no samples.
func single(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
		return nil
	}
	if strings.HasSuffix(path, ".sample") {
		return nil
	}
	return &helpful{
		fmt.Errorf("%s has another hard link, through which a command could change it", escape.Quote(path)),
		"cp -p it to a new file, and mv that over it",
	}
}

// links protects the targets of the links in a directory; some links must have one.
func (d *direct) links(dir string, must bool) error {
	f, err := openDir(dir)
	if err != nil {
		if must {
			return err
		}
		return nil
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil && must {
		return err
	}
	for _, e := range list {
		link := filepath.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink == 0 {
			if err := single(link); err != nil && e.Type().IsRegular() {
				return err
			}
			continue
		}
		text, err := os.Readlink(link)
		if err != nil {
			return err
		}
		if to, err := d.target(link, text); err != nil {
			return err
		} else if d.holds(to) {
			if err := single(to); err != nil {
				return err
			}
			d.at[to] = false
		}
	}
	return nil
}

// follow protects the git directory that a file names, and returns it.
func (d *direct) follow(file, prefix string) (dir string, err error) {
	text, err := readPlain(file)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	if !ok || name == "" {
		return "", fmt.Errorf("%s names no git directory", escape.Quote(file))
	}
	dir, err = d.target(file, name)
	if err != nil || !d.holds(dir) {
		return dir, err
	}
	return dir, d.gitDir(dir)
}

// target returns where the text of a link, or of a file like .git, leads. Empty: nothing is there, and the command
// cannot change that. It is an error if the command could make it lead elsewhere.
func (d *direct) target(file, text string) (string, error) {
	name := text
	if !filepath.IsAbs(name) {
		name = filepath.Dir(file) + "/" + name
	}
	if len(name) >= unix.PathMax {
		return "", nil // nothing can be there
	}
	real, err := filepath.EvalSymlinks(name)
	switch clean := filepath.Clean(name); {
	case err == nil && real != clean && (d.holds(real) || d.holds(clean)):
		return "", fmt.Errorf("%s leads through a symbolic link to %s", escape.Quote(file), escape.Quote(real))
	case err == nil:
		return real, nil
	case d.canMake(name):
		return "", fmt.Errorf("%s leads to %s, which does not exist", escape.Quote(file), escape.Quote(clean))
	}
	return "", nil
}

// canMake reports whether the command could create a missing path.
func (d *direct) canMake(name string) bool {
	for {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			return d.holds(real) && !d.closed(real)
		} else if _, err := os.Lstat(name); err == nil {
			return true // a link, to what may be anywhere
		}
		name = name[:max(strings.LastIndexByte(name, '/'), 0)]
		if name == "" {
			return false
		}
	}
}

// holds reports whether the path lies in a root.
func (d *direct) holds(path string) bool {
	return slices.ContainsFunc(d.roots, func(root string) bool { return paths.Inside(path, root) })
}

// closed reports whether the path lies in a read-only part of a root.
func (d *direct) closed(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		if writable, known := d.at[dir]; known {
			return !writable
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
