//go:build linux

package nsrun

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

// lookForSockets finds what is to be blocked, while the command is made ready. What takes longer is looked for beside all
// of prepare, once: most often it finds nothing.
func (x *Execution) lookForSockets(all bool) <-chan mounts.Plan {
	c := make(chan mounts.Plan, 1)
	first := x.distant == nil
	if first {
		x.distant = make(chan mounts.Plan, 1)
	}
	x.binds = all
	known := x.sockets
	go func(distant chan<- mounts.Plan, explain bool) {
		near, more := host.FindSockets(all)
		p := append(host.BlockSockets(near, all), known...)
		switch {
		case first && explain:
			c <- append(p, host.BlockSockets(more(), all)...)
			distant <- nil
		case first:
			c <- p
			distant <- host.BlockSockets(more(), all)
		default:
			c <- p
		}
	}(x.distant, x.explain)
	return c
}

// errMoreSockets says that the command has to be prepared anew.
var errMoreSockets = errors.New("there are more sockets to be blocked")

// moreSockets waits for what takes longer: while the sandbox is set up, before the command is executed.
func (x *Execution) moreSockets() error {
	return x.foundMore(<-x.distant)
}

// foundMore takes what was found. Where all of a session is shown through overlays, sockets in it lead nowhere.
func (x *Execution) foundMore(sockets mounts.Plan) error {
	x.looked = true
	if !x.binds && x.session != nil {
		sockets = slices.DeleteFunc(sockets, func(m mounts.Mount) bool { return within(x.session, m.Target) })
	}
	if x.sockets = sockets; len(sockets) > 0 {
		return errMoreSockets
	}
	return nil
}

// binds reports whether folders or rules show files of the host as they are, not through an overlay.
func (c *Config) binds(f *folders, q *Request) bool {
	shows := func(r Rule) bool { return r.Mode != Blocked }
	return len(f.direct) > 0 || len(f.readOnly) > 0 || slices.ContainsFunc(c.Rules, shows) || slices.ContainsFunc(q.Paths, shows)
}

// unixMount shows one of them.
func unixMount(path string, suspect func(dir string) bool) (mounts.Mount, error) {
	fail := func(err error) (mounts.Mount, error) { return mounts.Mount{}, &Error{"allow unix socket", path, err} }
	if !filepath.IsAbs(path) {
		return fail(host.ErrNotAbsolute)
	}
	real, err := links.Resolve(path, suspect)
	if err != nil {
		return fail(err)
	}
	fi, err := os.Lstat(real)
	if err != nil {
		return fail(host.Bare(err))
	}
	if fi.Mode()&os.ModeSocket == 0 {
		return fail(errors.New("it is no socket"))
	}
	m, err := host.Bind(real, false)
	if err != nil {
		return fail(host.Bare(err))
	}
	return m, nil
}
