package mounts

import (
	"errors"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/escape"
)

// Plan is an ordered list of mounts. The nil Plan is an empty root.
type Plan []Mount

// Error says which step of a Plan is wrong, and why.
type Error struct {
	Op   string // the kind of step: "bind", "tmpfs" …
	Path string // the path that is wrong
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

// The mistakes in a Plan, which an *Error wraps.
var (
	ErrNotAbsolute  = errors.New("path is not absolute")
	ErrNUL          = errors.New("path contains a NUL byte")
	ErrKind         = errors.New("unknown kind of mount")
	ErrRootTarget   = errors.New("cannot be at the root")
	ErrLayers       = errors.New("a writable overlay needs a lower, an upper and a work directory (a temporary one has no upper and work directory), and a read-only one needs at least two lower directories")
	errManyNames    = errors.New("too many names in a directory to mirror it")
	ErrHide         = errors.New("paths that an overlay hides or adds must be relative, without . and ..")
	ErrLongLayers   = errors.New("the paths of an overlay's layers are too long together")
	ErrNoSymlinkTxt = errors.New("a symbolic link needs a target")
	ErrRootNoMount  = errors.New("the caller's root directory is not a mount, so mount(2) cannot keep its flags")
)

var kindNames = [...]string{
	KindBind: "bind", KindTmpfs: "tmpfs", KindProc: "proc", KindDev: "dev", KindMqueue: "mqueue",
	KindOverlay: "overlay", KindDir: "dir", KindFile: "file", KindSymlink: "symlink",
	KindRemount: "remount", KindBlock: "block", KindChmod: "chmod", KindData: "data", KindLayer: "layer",
}

// String is the kind's name, as errors begin with.
func (k Kind) String() string {
	if k == kindInvalid || int(k) >= len(kindNames) {
		return "mount"
	}
	return kindNames[k]
}

// pathMax is how long a path or the text of a link can be, with a final zero.
const pathMax = 4096

// Validate checks everything that can be checked without the system, and returns the first mistake as an *Error.
func (p Plan) Validate() error {
	for i := range p {
		if err := p[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

// fronted reports whether an overlay has one more lower directory than m.Lower says.
func (m *Mount) fronted() bool { return len(m.Hide)+len(m.Dirs)+len(m.Files)+len(m.Texts) > 0 }

// validate returns the first mistake in a mount. It is long because each kind has its own rules.
func (m *Mount) validate() error {
	bad := func(path string, err error) error { return &Error{m.Kind.String(), path, err} }
	tooLong := func(p string) error {
		if len(p) >= pathMax {
			return bad(p, syscall.ENAMETOOLONG)
		}
		return nil
	}
	check := func(p string) error {
		if strings.IndexByte(p, 0) >= 0 {
			return bad(p, ErrNUL)
		}
		if !path.IsAbs(p) {
			return bad(p, ErrNotAbsolute)
		}
		return tooLong(p)
	}
	if m.Kind == kindInvalid || int(m.Kind) >= len(kindNames) {
		return bad(m.Target, ErrKind)
	}
	if err := check(m.Target); err != nil {
		return err
	}
	switch m.Kind {
	case KindBind:
		return check(m.Source)
	case KindOverlay:
		writable := m.Upper != "" || m.Work != ""
		switch {
		case m.Temporary && (writable || len(m.Lower) < 1),
			writable && (m.Upper == "" || m.Work == "" || len(m.Lower) < 1 && !m.fronted()),
			!m.Temporary && !writable && len(m.Lower) < 2 && (len(m.Lower) < 1 || !m.fronted()):
			return bad(m.Target, ErrLayers)
		}
		for _, l := range m.Lower {
			if err := check(l); err != nil {
				return err
			}
		}
		if m.Over && (m.fronted() || len(m.Lower) < 1 || isRoot(m.Target)) {
			return bad(m.Target, ErrLayers)
		}
		names := slices.Concat(m.Hide, m.Dirs, m.Files)
		for _, t := range m.Texts {
			names = append(names, t.Path)
		}
		for _, p := range m.Perms {
			names = append(names, p.Path)
		}
		for _, h := range names {
			if h == "" || path.IsAbs(h) || path.Clean(h) != h || h == "." || h == ".." || strings.HasPrefix(h, "../") || strings.IndexByte(h, 0) >= 0 {
				return bad(h, ErrHide)
			}
		}
		if writable {
			if err := check(m.Upper); err != nil {
				return err
			}
			return check(m.Work)
		}
	case KindSymlink:
		if m.Source == "" {
			return bad(m.Target, ErrNoSymlinkTxt)
		}
		if strings.IndexByte(m.Source, 0) >= 0 {
			return bad(m.Source, ErrNUL)
		}
		if err := tooLong(m.Source); err != nil {
			return err
		}
		if isRoot(m.Target) {
			return bad(m.Target, ErrRootTarget)
		}
	case KindProc, KindDev:
		if m.Source != "" {
			return check(m.Source)
		}
	case KindFile, KindData, KindBlock:
		if isRoot(m.Target) {
			return bad(m.Target, ErrRootTarget)
		}
	}
	return nil
}

// isRoot reports whether a target is the sandbox's root. One with ".." may be it too, but only the kernel knows.
func isRoot(target string) bool {
	for name := range strings.SplitSeq(target, "/") {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}
