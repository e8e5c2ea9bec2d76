package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// Without mounts, a command may do with a path what a Sandbox shows there. Nothing can take the place of something
// else: the copy of the project and the directory for temporary files have paths of their own.

// A Host answers questions about the host's files.
type Host struct {
	// Real resolves the links of a path, as far as it exists.
	Real func(path string) string
	// List lists a directory; it returns nothing if it cannot.
	List func(dir string) ([]confine.Entry, error)
}

// A Move says that commands find at At what a Sandbox would show at From.
type Move struct{ From, At string }

// A Confined is a Sandbox without mounts.
type Confined struct {
	Files confine.Tree
	Marks confine.Marks
	Moved []Move
	Temp  string   // the directory for temporary files
	Dir   string   // the working directory
	Home  string   // the home directory, where that is one in Temp, which has to be made; empty: it is where it was
	Env   []string // with both
}

var (
	errCopied  = errors.New("the command works in a copy of its directory at another path: such a rule needs mounts")
	errOverlay = errors.New("its changes are in an overlay, which needs mounts")
)

// devices are those of /dev that commands may use. The last two make terminals, whose other ends are in /dev/pts.
var devices = [...]string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx"}

// Confine replaces the mounts by rules. temp is the directory for temporary files.
func (s *Sandbox) Confine(temp string, h Host) (c Confined, err error) {
	c.Temp = temp
	b := confining{c: &c, host: h}
	for i := range s.Mounts {
		if err := b.mount(&s.Mounts[i]); err != nil {
			return c, err
		}
	}
	for _, g := range b.granted {
		c.Marks.Grant(g.at, g.access, g.same)
	}
	c.Marks.Grant(temp, confine.Write, mounts.FileID{})
	if c.Files, err = c.Marks.Compile(h.List); err != nil {
		return c, &Error{"allow files", "", err}
	}
	c.Dir = c.Path(s.Dir)
	c.Env = append(slices.DeleteFunc(slices.Clone(s.Env), func(kv string) bool {
		return kv == "PWD="+s.Dir
	}), "PWD="+c.Dir)
	c.moveHome()
	return c, nil
}

// moveHome moves a home directory in /tmp, which would be empty with mounts, to the directory for temporary files.
// Programs fail if they may not read their settings, but not if there are none.
func (c *Confined) moveHome() {
	const home = "HOME="
	for i, kv := range c.Env {
		was, ok := strings.CutPrefix(kv, home)
		if !ok || !path.IsAbs(was) || c.Marks.Access(was) != confine.None {
			continue
		}
		if at := c.Path(was); at != was && paths.Inside(at, c.Temp) {
			c.Home, c.Env[i] = at, home+at
		}
	}
}

// Path returns where commands find what a Sandbox would show at a path.
func (c *Confined) Path(name string) string {
	for _, m := range slices.Backward(c.Moved) {
		if paths.Inside(name, m.From) {
			return path.Join(m.At, strings.TrimPrefix(name, m.From))
		}
	}
	for _, dir := range [...]string{"/tmp", "/var/tmp"} {
		if paths.Inside(name, dir) && c.Marks.Access(name) == confine.None {
			return path.Join(c.Temp, strings.TrimPrefix(name, dir))
		}
	}
	return name
}

// Notice names the directories in which nothing can be created; "" means none.
func (c *Confined) Notice() string {
	list := make([]string, len(c.Files.Fixed))
	for i, dir := range c.Files.Fixed {
		list[i] = escape.Quote(dir)
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing new can be made directly in %s: something in it is read-only or hidden, and without "+
		"mounts all else is allowed one by one", strings.Join(list, ", "))
}

type confining struct {
	c       *Confined
	host    Host
	granted []grant
}

type grant struct {
	at     string
	access confine.Access
	same   mounts.FileID
}

func (b *confining) mount(m *mounts.Mount) error {
	if !m.Covers() {
		return nil
	}
	target := b.host.Real(m.Target)
	for _, moved := range b.c.Moved {
		if target != moved.From && paths.Inside(target, moved.From) {
			return &Error{"hide or show", m.Target, errCopied}
		}
	}
	marks := &b.c.Marks
	switch m.Kind {
	case mounts.KindProc:
		marks.Cover(target, confine.Read)
	case mounts.KindDev:
		marks.Cover(target, confine.None)
		for _, name := range devices {
			marks.Cover(path.Join(target, name), confine.Device)
		}
	case mounts.KindBind:
		b.bind(m, target)
	case mounts.KindOverlay:
		if m.Upper != "" || len(m.Lower) != 1 || b.host.Real(m.Lower[0]) != target {
			return &Error{"show", m.Target, errOverlay}
		}
		marks.Cover(target, confine.Read)
		for _, name := range m.Hide {
			marks.Cover(path.Join(target, name), confine.None)
		}
	default:
		marks.Cover(target, confine.None)
	}
	return nil
}

func (b *confining) bind(m *mounts.Mount, target string) {
	access := confine.Write
	switch {
	case m.Devices:
		access = confine.Device
	case m.ReadOnly:
		access = confine.Read
	}
	source := b.host.Real(m.Source)
	switch {
	case source != target:
		b.c.Marks.Cover(target, confine.None)
		b.c.Moved = append(b.c.Moved, Move{target, source})
		b.granted = append(b.granted, grant{source, access, m.Same})
	case access == confine.Write && !m.Optional:
		b.c.Marks.Grant(target, access, m.Same)
	default:
		b.c.Marks.Cover(target, access)
	}
}
