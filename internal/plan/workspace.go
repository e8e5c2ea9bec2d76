package plan

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// workspacePrivate are the sandbox's own directories if the workspace is the root.
var workspacePrivate = [...]string{"/proc", "/dev", "/tmp"}

// WorkspaceSystem are the paths of the host that are shown over such a workspace.
var WorkspaceSystem = [...]string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/alternatives"}

const workspacePath = "/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

var (
	errNoWorkspace = errors.New("there is no project that could be the root")
	errCopy        = errors.New("it cannot be the root: that needs an overlay, and this session is a copy")
	errNotShown    = errors.New("it is not in the sandbox")
	errRoot        = errors.New("the project is the root, and the rule would cover it")
)

// turn makes the workspace the root, and moves the mounts in it. An overlay's layer has the mount points, not the
// workspace.
func (b *building) turn() error {
	dir := b.first()
	if dir == "" {
		return &Error{OpUse, "", errNoWorkspace}
	}
	at := -1
	for i, m := range b.mounts {
		if m.Target == dir && (b.from[i] == SessionLayer || b.from[i] == InPlaceLayer || b.from[i] == ShownLayer) && m.Kind != mounts.KindLayer {
			at = i
		}
	}
	if at < 0 {
		return &Error{OpUse, dir, errNoWorkspace}
	}
	root := b.mounts[at]
	var before, after mounts.Plan
	var fromBefore, fromAfter []Layer
	for i, m := range b.mounts {
		switch {
		case i == at:
		case m.Kind == mounts.KindLayer:
			before, fromBefore = append(before, m), append(fromBefore, b.from[i])
		default:
			for _, m := range b.turned(m, dir) {
				after, fromAfter = append(after, m), append(fromAfter, b.from[i])
			}
		}
	}
	switch {
	case root.Kind == mounts.KindOverlay:
	case root.ReadOnly:
		root = mounts.Mount{Kind: mounts.KindOverlay, Lower: []string{root.Source}, ReadOnly: true}
	case b.Work == "":
		return &Error{OpUse, dir, errCopy}
	default:
		root = mounts.Mount{Kind: mounts.KindOverlay, Upper: root.Source, Work: b.Work}
	}
	root.Target = "/"
	b.addPoints(&root, after)
	b.mounts = slices.Concat(before, mounts.Plan{root}, after)
	b.from = slices.Concat(fromBefore, []Layer{b.from[at]}, fromAfter)
	return nil
}

// turned returns the new mounts for m; what is hidden is hidden at each of its paths.
func (b *building) turned(m mounts.Mount, dir string) (list mounts.Plan) {
	rel, inside := strings.CutPrefix(m.Target, dir+"/")
	if m.Kind != mounts.KindBlock {
		if inside {
			m.Target = "/" + rel
		}
		return mounts.Plan{m}
	}
	if b.shows(m.Target, func(i int) bool { return paths.Inside(b.mounts[i].Target, dir) }) { // besides the workspace
		list = append(list, m)
	}
	if inside {
		m.Target = "/" + rel
		list = append(list, m)
	}
	return list
}

// addPoints adds the mount points for the host's paths to the root.
func (b *building) addPoints(root *mounts.Mount, list mounts.Plan) {
	var covered []string // nothing below them is looked up in the root
	for _, m := range list {
		if m.Kind == mounts.KindBlock || m.Kind == mounts.KindRemount || paths.InAny(m.Target, covered) {
			continue
		}
		rel := strings.TrimPrefix(m.Target, "/")
		switch {
		case m.Kind == mounts.KindBind && m.Source != m.Target && paths.Inside(m.Source, b.first()):
			continue // it is in the workspace
		case m.Kind == mounts.KindData || m.Kind == mounts.KindBind && b.NoDirs[m.Target]:
			root.Files = append(root.Files, rel)
		default:
			root.Dirs = append(root.Dirs, rel)
			covered = append(covered, m.Target)
		}
	}
	slices.Sort(root.Files)
	root.Files = slices.Compact(root.Files)
}

// ToSandbox maps an absolute, clean path of the host into a sandbox whose root is the directory workspace. shown are
// paths that are also there, at their own places.
func ToSandbox(workspace, name string, shown []string) (string, error) {
	if name == workspace {
		return "/", nil
	}
	if rel, ok := strings.CutPrefix(name, workspace+"/"); ok {
		at := "/" + rel
		if paths.InAny(at, WorkspaceSystem[:]) || paths.InAny(at, workspacePrivate[:]) || paths.InAny(at, shown) {
			return "", &Error{"map", name, errNotShown}
		}
		return at, nil
	}
	if paths.InAny(name, WorkspaceSystem[:]) || paths.InAny(name, shown) {
		return name, nil
	}
	return "", &Error{"map", name, errNotShown}
}

// ToHost is the reverse of ToSandbox. A relative name is relative to the root, and cannot lead out of it by its text.
func ToHost(workspace, name string, shown []string) (string, error) {
	at := path.Join("/", name)
	switch {
	case strings.IndexByte(name, 0) >= 0:
		return "", &Error{"map", name, errors.New("a path has no zero bytes, " + escape.Quote(name) + " has")}
	case paths.InAny(at, shown), paths.InAny(at, WorkspaceSystem[:]):
		return at, nil
	case paths.InAny(at, workspacePrivate[:]):
		return "", &Error{"map", at, ErrPrivate}
	}
	return path.Join(workspace, at), nil
}
