//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Commands of root with ids of their own: see package idmap. What they may use is shown with these ids before the first
// mount, at the host's own paths in the sandbox's copy of the mounts. So the plan does not change.
//
// Without Config.OwnIDs root keeps the id of the host's root, but a command whose files are all kept apart in a session
// has the other ids for its own. Then it can change owners there: what it gains is harmless. If this machine has no
// idmapped mounts, root's command has no privileges.

const opOwnIDs = "own ids"

// mostMapped is how many mounts can be sent to a sandbox, with room for its other descriptors (SCM_MAX_FD).
const mostMapped = 200

var (
	errOwnIDsUser = errors.New("the kernel allows them for root only: run nsrun as root, or without own ids")
	errOwnIDsHost = errors.New("the kernel allows them only for the host's root with all capabilities: run nsrun as that user, or without own ids")
)

// keepsOwners reports whether root's command can change owners without Config.OwnIDs: nothing of the host is written in
// place.
func (x *Execution) keepsOwners(session *plan.Session, written bool) bool {
	c := &x.runner.config
	return os.Geteuid() == 0 && !c.OwnIDs && !c.userNamespaces() && !x.landlock && session != nil && !written &&
		!x.noOwners && !x.runner.noOwners.Load() && idmap.Possible() && features.Has(features.NewMountCalls)
}

// others are the folders of other users that root's command cannot write to.
func (x *Execution) others(f *plan.Facts) (list []plan.Other) {
	if x.runner.config.OwnIDs {
		return nil
	}
	list = host.Others(f.Folders.Overlay, f.Folders.Direct)
	if len(list) == 0 || !x.owners {
		return list
	}
	x.runner.init()
	for _, o := range list { // usually only ownIDs finds that out: closing a mount takes a tenth of a millisecond
		mount, err := x.runner.ids.Mount(o.Dir, false)
		if err != nil {
			x.runner.noOwners.Store(true)
			x.owners = false
			return list
		}
		_ = mount.Close()
	}
	return nil
}

// withoutOwners does without changed owners if the kernel refuses mounts over mapped ones, as before Linux 5.19. It
// reports whether this was not known when the command was planned. It is asked before others that do without something:
// without changed owners all of that may work.
func (x *Execution) withoutOwners(err error) bool {
	if !x.owners || !refusesMount(err) {
		return false
	}
	x.noOwners = true
	return true
}

// mapsIDs reports whether the command has ids of its own, and whose ids its root has.
func (x *Execution) mapsIDs() (root idmap.Root, ok bool) {
	return idmap.Root(x.owners), x.owners || x.runner.config.OwnIDs
}

// ownRoot is the outer id of the sandbox's root. Zero: root, or this user.
func (x *Execution) ownRoot() int {
	if x.runner.config.OwnIDs {
		return idmap.First
	}
	return 0
}

func (x *Execution) ownIDs(cmd *nsexec.Cmd) error {
	x.endOwnIDs()
	root, ok := x.mapsIDs()
	if !ok {
		return nil
	}
	if os.Geteuid() != 0 {
		return &Error{Op: opOwnIDs, Err: errOwnIDsUser}
	}
	err := x.mapIDs(cmd, root)
	if err != nil && x.owners {
		x.endOwnIDs()
		if errors.Is(err, idmap.ErrUnsupported) || errors.Is(err, unix.EPERM) { // EPERM: nsrun's own user has no such ids
			x.runner.noOwners.Store(true)
		}
		x.owners, x.box.Owners, err = false, false, nil // it starts without, or fails for the same reason
	}
	return err
}

func (x *Execution) mapIDs(cmd *nsexec.Cmd, root idmap.Root) error {
	x.runner.init()
	own := func(f *os.File, err error, path string) error {
		if _, ok := errors.AsType[*nsexec.Error](err); ok {
			return err // there are no namespaces at all
		}
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", errOwnIDsHost, sys.Bare(err))
		}
		if err != nil {
			return &Error{Op: opOwnIDs, Path: path, Err: sys.Bare(err)}
		}
		x.mapped = append(x.mapped, f)
		return nil
	}
	masks, err := idmap.Masks()
	if err = own(masks, err, "tmpfs"); err != nil {
		return err
	}
	layers := slices.Clone(cmd.Layers)
	for i, l := range layers { // what a session has in memory
		if x.explain {
			break
		}
		f, err := x.runner.ids.MountOf(l, false)
		if err = own(f, err, l.Name()); err != nil {
			return err
		}
		layers[i] = f
	}
	var plan mounts.Plan
	layer := func(path string, open func() (*os.File, error)) error {
		var f *os.File
		if !x.explain || x.owners { // without such mounts the answer would be another one
			var err error
			f, err = open()
			if err = own(f, err, path); err != nil {
				return err
			}
		}
		plan = append(plan, mounts.Layer(len(layers), path))
		layers = append(layers, f)
		return nil
	}
	list, places := ownSources(&x.box, x.homes[0].at, x.unlinked)
	doors := root.Doors(places, sourcePaths(list))
	if n := len(doors) + len(list); n > mostMapped {
		return &Error{Op: opOwnIDs, Err: fmt.Errorf("%d paths would need them, and at most %d can have them: name directories instead of the paths in them", n, mostMapped)}
	}
	for _, d := range doors {
		if err := layer(d.Dir, d.Mount); err != nil {
			return err
		}
	}
	for _, s := range list {
		path := s.path
		if x.explain {
			path = host.Nearest(path) // nsrun's own directories may be missing
		}
		if err := layer(s.path, func() (*os.File, error) { return x.runner.ids.Mount(path, s.recursive) }); err != nil {
			return err
		}
	}
	// After the root, with which a plan begins, and before layers of the session, which lie in these.
	cmd.Mounts = slices.Insert(slices.Clone(cmd.Mounts), min(1, len(cmd.Mounts)), plan...)
	cmd.Layers = layers
	cmd.UIDMap, cmd.GIDMap, cmd.Capabilities = root.Map(), root.Map(), idmap.Capabilities
	sandbox.Of(cmd).OwnRoot, sandbox.Of(cmd).Masks = root == idmap.OwnRoot, masks
	return nil
}

// endOwnIDs closes the mounts: the sandbox has them now, or there is no sandbox.
func (x *Execution) endOwnIDs() {
	for _, f := range x.mapped {
		_ = f.Close()
	}
	x.mapped = nil
	if x.runner.isClosed() { // Close did not wait for this command, or somebody wants a View
		x.runner.ids.Close()
	}
}

// An ownSource is a path that is shown with the sandbox's ids.
type ownSource struct {
	path      string
	recursive bool   // with the mounts below
	mount     uint64 // that the path is in
}

// unlinked resolves the links on the path to the caller's own directories, the home directory and that of sessions. It
// follows no other links: what is put into a folder now may lead elsewhere than when the plan was made.
func (x *Execution) unlinked(path string) string {
	if x.session != nil {
		if dir := filepath.Dir(x.session.Dir()); paths.Inside(path, dir) {
			return filepath.Join(linkless(dir), path[len(dir):])
		}
	}
	if home := host.Home(); home != "" && x.homes[0].at != "" && paths.Inside(path, home) {
		return filepath.Join(x.homes[0].at, path[len(home):])
	}
	return path
}

// linkless resolves the links of a path, if it exists.
func linkless(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil && path != "" {
		return to
	}
	return path
}

// ownSources are the paths that contain the sources of binds and layers of overlays, outer ones first, and the paths of
// all mounts that are attached for them. The home directory is among them even if it is shown as it is.
func ownSources(box *plan.Sandbox, home string, unlinked func(string) string) (list []ownSource, places []string) {
	var all []ownSource
	if !slices.ContainsFunc(box.Mounts, func(m mounts.Mount) bool { return m.Kind == mounts.KindOverlay && m.Target == home }) {
		all = append(all, ownSource{path: home, recursive: true})
	}
	for i := range box.Mounts {
		m := &box.Mounts[i]
		switch {
		case m.Kind == mounts.KindLayer:
			places = append(places, m.Target)
		case !box.Owned(i):
		case m.Kind == mounts.KindOverlay:
			all = append(all, ownSource{path: linkless(together(m.Upper, m.Work))}) // nsrun made them
			for _, path := range m.Lower {
				all = append(all, ownSource{path: unlinked(path)})
			}
		case box.Layers[i] == plan.PlaygroundLayer: // so it did this
			all = append(all, ownSource{path: linkless(m.Source), recursive: true})
		default:
			all = append(all, ownSource{path: unlinked(m.Source), recursive: !m.NonRecursive})
		}
	}
	inMemory := places
	all = slices.DeleteFunc(all, func(s ownSource) bool {
		// Nothing can be attached over the root with which the sandbox begins.
		return s.path == "" || s.path == "/" || paths.InAny(s.path, inMemory)
	})
	slices.SortStableFunc(all, func(a, b ownSource) int { return strings.Compare(a.path, b.path) })
	for _, s := range all {
		var st unix.Statx_t
		if sys.Statx(unix.AT_FDCWD, s.path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st) == nil {
			s.mount = st.Mnt_id
		}
		within := slices.IndexFunc(list, func(o ownSource) bool { return paths.Inside(s.path, o.path) && s.mount == o.mount })
		if within < 0 {
			list = append(list, s)
		} else if s.recursive {
			list[within].recursive = true
		}
	}
	places = append(sourcePaths(list), inMemory...)
	slices.Sort(places)
	return list, places
}

// together is the directory that contains two paths: an overlay needs both in one mount.
func together(a, b string) string {
	for a != "" && !paths.Inside(b, a) {
		a = filepath.Dir(a)
	}
	return a
}

func sourcePaths(list []ownSource) (paths []string) {
	for _, s := range list {
		paths = append(paths, s.path)
	}
	return paths
}
