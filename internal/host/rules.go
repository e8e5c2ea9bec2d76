//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// A Rule is a rule of a Config or a Request, as it is written there.
type Rule struct {
	Access  plan.Access
	Pattern string // of a Config, see pathrule.Parse; of a Request an absolute path
	Idle    bool   // nothing is written to in place that it could protect
}

var (
	errNoPath      = errors.New("no such path")
	errOwnProcess  = errors.New("it is a process of nsrun's own, which the command does not see")
	errKernelFiles = errors.New("it belongs to the kernel, such as /proc and /sys: writing there changes this machine, not files")
	errDevices     = errors.New("rules show files, not devices: commands have a /dev of their own, in which --device shows a device")
	errRuleAccess  = errors.New("a rule must be Direct, ReadOnly, Blocked or Protected")
	errExcept      = errors.New("only rules that hide paths can have exceptions")
	errUseless     = errors.New("its directory is hidden as a whole, so an exception has no effect there: show the path by another rule (--ro, --rw)")

	// ErrElse says that a path now leads to another file.
	ErrElse = errors.New("it now leads to another file")

	// errNotFiles is about paths that only a Config can allow: a yes to one of them would allow much more than it
	// seems to.
	errNotFiles = errors.New("a request cannot ask for the whole file system, or for /proc, /sys and /dev")
)

// Asked returns the rules of a request, with the paths that the user can be asked about.
func Asked(rules []Rule, suspect func(dir string) bool) ([]Rule, error) {
	real := slices.Clone(rules)
	for i := range real {
		fail := func(err error) ([]Rule, error) { return nil, &plan.RuleError{Asked: true, Index: i, Err: err} }
		if !filepath.IsAbs(real[i].Pattern) {
			return fail(plan.ErrNotAbsolute)
		}
		path, err := links.Resolve(real[i].Pattern, suspect)
		if err != nil {
			return fail(err)
		}
		if path == "/" || paths.InAny(path, []string{"/proc", "/sys", "/dev"}) {
			return fail(errNotFiles)
		}
		if given := filepath.Clean(real[i].Pattern); path != given && real[i].Access != pathrule.Block && !isHidden(given, nil, false) && isHidden(path, nil, true) {
			return fail(plan.ErrHidden)
		}
		real[i].Pattern = path
	}
	return real, nil
}

// RuleQuery is what Rules needs to know.
type RuleQuery struct {
	Asked   bool                  // they are a Request's: no patterns, and free of links
	Hidden  []string              // paths that are hidden
	Suspect func(dir string) bool // see links.Resolve
	Git     bool                  // what git executes can be written to
	Direct  []string              // folders that are written to in place
}

type Matched struct {
	pathrule.Rule          // its Base is free of links
	Typed         string   // the Base as it was written
	Paths         []string // nil: none
	Err           error    // nil: it was understood
}

// Match finds the paths that rules match; asked are the rules of a Request. For suspect see links.Resolve.
func Match(rules []Rule, home string, asked bool, suspect func(dir string) bool) []Matched {
	list, parsed := make([]Matched, len(rules)), make([]pathrule.Rule, len(rules))
	for i, rule := range rules {
		m := &list[i]
		text := rule.Pattern
		if asked {
			text = pathrule.Quote(text)
		}
		m.Access = rule.Access
		m.Pattern, m.Err = pathrule.Parse(text, Variable(home))
		if m.Typed, _ = m.Pattern.Base(); m.Err == nil {
			var real string
			if real, m.Err = nearest(m.Typed, suspect); m.Err == nil {
				m.Pattern.Rebase(real)
			}
		}
		switch {
		case m.Access == pathrule.NoAccess || m.Access > pathrule.Protect || asked && m.Access == pathrule.Protect:
			m.Err = errRuleAccess
		case m.Err != nil:
		case m.Pattern.Except && m.Access != pathrule.Block:
			m.Err = errExcept
		case m.Pattern.Except && pathrule.Useless(parsed[:i], &m.Pattern):
			m.Err = errUseless
		}
		parsed[i] = m.Rule
	}
	for i := range list {
		m := &list[i]
		if m.Err != nil || m.Pattern.Except || rules[i].Idle {
			continue
		}
		skip := func(string) bool { return false }
		if m.Access == pathrule.Block {
			skip = func(path string) bool { return pathrule.Excepted(parsed[i+1:], path) }
		}
		if m.Paths, m.Err = Glob(&m.Pattern, skip); len(m.Paths) == 1 && m.Err == nil {
			if base, literal := m.Pattern.Base(); literal && m.Paths[0] == base {
				m.Paths[0] = m.Typed
			}
		}
	}
	return list
}

// nearest resolves the symbolic links of a path, as far as it leads to something.
func nearest(path string, suspect func(dir string) bool) (string, error) {
	near, rest := path, ""
	for !Exists(near) {
		near, rest = filepath.Dir(near), filepath.Join(filepath.Base(near), rest)
	}
	at, err := links.Resolve(near, suspect)
	return filepath.Join(at, rest), err
}

// Depths are how deep the paths lie that a rule's text means, at least and at most, after symbolic links are followed.
func Depths(text string) (least, most int) {
	p, err := pathrule.Parse(text, Variable(Home()))
	if err != nil {
		return 0, 0 // which is reported when the rule is used
	}
	base, _ := p.Base()
	if real, err := nearest(base, func(string) bool { return false }); err == nil {
		p.Rebase(real)
	}
	return p.Depths()
}

// Variable returns the values of pathrule.Variables.
func Variable(home string) func(name string) string {
	return func(name string) string {
		if name == "HOME" {
			return home
		}
		return os.Getenv(name)
	}
}

// Rules finds the paths of rules. It also finds what git executes in a directory that a rule makes writable; that is
// read-only, unless the rule names it.
func Rules(rules []Matched, q RuleQuery) (list []plan.Rule, in InPlace, err error) {
	in.Known = make(map[string]bool)
	for i := range rules {
		found, err := q.find(&rules[i], &in)
		if err != nil {
			return nil, InPlace{}, &plan.RuleError{Asked: q.Asked, Index: i, Err: sys.Bare(err)}
		}
		list = append(list, found)
	}
	return list, in, nil
}

func (q *RuleQuery) find(rule *Matched, all *InPlace) (r plan.Rule, err error) {
	r.Access, r.Pattern = rule.Access, rule.Pattern
	if rule.Err != nil || r.Pattern.Except {
		return r, rule.Err
	}
	base, literal := r.Pattern.Base()
	if len(rule.Paths) == 0 && r.Access < pathrule.Block {
		return r, errNoPath
	}
	if literal && r.Access == pathrule.Block {
		r.Around = around(base, len(rule.Paths) == 0)
	}
	pattern := "" // the one path that it names
	if literal {
		pattern = rule.Typed
	}
	var guarded []string // directories in which git does not execute what commands write
	for _, path := range rule.Paths {
		found, err := q.one(r.Access, path, pattern)
		if err != nil {
			return r, err
		}
		if r.Access == pathrule.Protect && !paths.InAny(found.At, slices.Concat(q.Direct, all.Dirs, all.Files)) {
			continue
		}
		r.Found = append(r.Found, found)
		switch {
		case r.Access == pathrule.Protect:
		case r.Access != plan.Write:
			all.Git = slices.DeleteFunc(all.Git, func(dir string) bool { return paths.Inside(dir, found.At) || paths.Inside(found.At, dir) })
		case found.Hidden:
		case !IsDir(found.At):
			all.Files = append(all.Files, found.At)
		case path == pattern && ofGit(found.At):
			all.Dirs, all.Git = append(all.Dirs, found.At), append(all.Git, found.At) // and no part of it is kept
		default:
			all.Dirs, guarded = append(all.Dirs, found.At), append(guarded, found.At)
		}
	}
	if q.Git {
		return r, nil
	}
	in, err := protectGit(guarded)
	if err != nil {
		return r, err
	}
	// A rule before this one may have named it.
	for _, m := range in.Plan {
		if !paths.InAny(m.Target, all.Git) {
			r.Git = append(r.Git, m)
		}
	}
	r.Unguarded = in.Unguarded
	all.add(&in)
	return r, nil
}

// around returns what surrounds a path without links, whether or not something was there when it was looked up.
func around(path string, missing bool) *plan.Around {
	a := &plan.Around{At: path, Missing: missing, Dirs: make(map[string]plan.Dir)}
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil {
			continue
		}
		if a.Dirs[dir] = dirOf(&st); a.Dir == "" {
			a.Dir = dir
		}
	}
	if a.Dir == "" {
		a.Dir = "/"
	}
	return a
}

func dirOf(st *unix.Stat_t) plan.Dir {
	d := plan.Dir{Perm: os.FileMode(st.Mode & 0o777), Own: int(st.Uid) == os.Geteuid() && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0}
	if st.Mode&unix.S_ISVTX != 0 {
		d.Perm |= os.ModeSticky
	}
	return d
}

// one finds what a rule applies to at one of the paths that its pattern matches.
func (q *RuleQuery) one(access plan.Access, path, pattern string) (found plan.Found, err error) {
	if found.At, err = links.Resolve(path, q.Suspect); err != nil {
		return found, err
	}
	if q.Asked && found.At != path {
		return found, ErrElse
	}
	if access == pathrule.Block {
		return found, nil
	}
	if paths.Inside(found.At, "/proc/"+strconv.Itoa(os.Getpid())) {
		return found, errOwnProcess
	}
	if access == plan.Write && ofKernel(found.At) {
		return found, errKernelFiles
	}
	if ofDevices(found.At) {
		return found, errDevices
	}
	named := path == pattern && isHidden(pattern, q.Hidden, false)
	found.Linked = path != found.At
	if found.Hidden = found.At != pattern && !named && isHidden(found.At, q.Hidden, true); !found.Hidden {
		found.Bind, err = Bind(found.At, access == plan.Write)
	}
	return found, err
}

// ofKernel reports whether a path lies in a file system of the kernel, or in /proc and /sys, where others are mounted.
func ofKernel(name string) bool {
	if paths.InAny(name, []string{"/proc", "/sys"}) {
		return true
	}
	fd, err := sys.Openat2(unix.AT_FDCWD, name, unix.O_PATH, 0, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return sys.InKernelFS(sys.FD(fd))
}

// ofDevices reports whether a path is a device, or a directory of devices: /dev, and those in its file system.
func ofDevices(name string) bool {
	var st, dev unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		return true
	case unix.S_IFDIR:
		shared := paths.Inside(name, "/dev/shm") // some containers have no file system of its own for it
		return name == "/dev" || paths.Inside(name, "/dev") && !shared && unix.Lstat("/dev", &dev) == nil && st.Dev == dev.Dev
	}
	return false
}

// ofGit reports whether a directory is a git directory, or the place in it of those of submodules or work trees.
func ofGit(dir string) bool {
	base := filepath.Base(dir)
	return isGitDir(dir) || (base == "modules" || base == "worktrees") && isGitDir(filepath.Dir(dir))
}
