package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

type Sandbox struct {
	Mounts mounts.Plan
	Layers []Layer // of each of the Mounts
	Dir    string  // the working directory
	Env    []string
	// Guarded are the targets of those Mounts that make what git executes read-only.
	Guarded []string
	// Later are hidden paths that do not exist.
	Later []string
	// Absent are paths that the sandbox's overlays hide.
	Absent []Gone
	// Closed are the directories of nsrun's that no rule makes writable.
	Closed []Own
	Rules  []pathrule.Rule
	// HostCgroups keeps the command in the host's cgroup namespace, because the host's cgroup file systems are
	// shown.
	HostCgroups    bool
	OwnIDs, Owners bool
	UserNamespaces bool
}

// layers mounts each Layer.
var layers = [layerCount]func(*building) error{
	HostLayer:       func(b *building) error { return b.add(append(b.withTerminal(b.base()), b.Devices...)...) },
	CacheLayer:      func(b *building) error { return b.add(b.Caches...) },
	SessionLayer:    func(b *building) error { return b.add(b.sessionMounts()...) },
	InPlaceLayer:    func(b *building) error { return b.add(b.InPlace...) },
	ShownLayer:      (*building).shown,
	BuildLayer:      func(b *building) error { return b.add(b.Builds...) },
	PlaygroundLayer: (*building).playground,
	BlockedLayer:    func(b *building) error { return b.add(block(b.Folders.Blocked)...) },
	SecretLayer:     func(b *building) error { return b.add(block(b.secrets())...) },
	SocketLayer:     func(b *building) error { return b.add(block(b.sockets())...) },
	RuleLayer:       func(b *building) error { return b.rules(b.Rules, false) },
	PathLayer:       func(b *building) error { return b.rules(b.Paths, true) },
	UnixLayer:       func(b *building) error { return b.add(b.Unix...) },
	NetworkLayer:    func(b *building) error { return b.add(b.network()...) },
	OwnLayer:        (*building).own,
}

// Build decides what a command sees.
func Build(f Facts, p Policy) (Sandbox, []Notice, error) {
	b := &building{Facts: &f, policy: &p}
	b.noteFolders()
	for b.at = range layerCount {
		if err := layers[b.at](b); err != nil {
			return Sandbox{}, b.notices, err
		}
		if b.at == PathLayer {
			if err := b.staysHidden(); err != nil {
				return Sandbox{}, b.notices, err
			}
		}
	}
	b.at = BlockedLayer // of what staysBlocked adds
	if err := b.staysBlocked(); err != nil {
		return Sandbox{}, b.notices, err
	}
	b.hideLater()
	b.joinLayers()
	b.openHoles()
	switch {
	case p.Root:
		if err := b.turn(); err != nil {
			return Sandbox{}, b.notices, err
		}
	case p.Strict:
		b.closeRoot()
	}
	if p.UserNamespaces && !p.Root {
		b.ownInside()
	}
	s := Sandbox{
		Mounts: b.mounts, Layers: b.from, Guarded: b.guarded(), Rules: b.pathRules(), Later: b.later, Absent: b.absent, Closed: slices.Concat(b.owned(), b.Kept),
		HostCgroups: showsCgroups(b.mounts), UserNamespaces: p.UserNamespaces, OwnIDs: p.OwnIDs, Owners: p.Owners,
	}
	if p.Root {
		s.Dir = workspaceDir(p.WorkingDir)
		s.Env = b.environment(s.Dir)
		return s, b.notices, nil
	}
	unseen := func(way []Step) bool {
		return slices.ContainsFunc(way, func(l Step) bool { return !s.Why(l.Link, OnHost{Exists: true}).Read })
	}
	if f.HomeAt != "" && unseen(f.HomeWay) {
		f.Home = f.HomeAt
	}
	s.Dir = WorkingDir(p.WorkingDir, b.first(), f.Home, b.hasPlay)
	if unseen(f.DirWay) {
		s.Dir = f.DirAt // the shell came through a link that the command does not see
	}
	s.Env = b.environment(s.Dir)
	return s, b.notices, nil
}

// shown mounts the read-only folders, below writable folders in them.
func (b *building) shown() error {
	roots := slices.Concat(b.roots(), b.Folders.Direct)
	for _, m := range b.Shown {
		b.insert(b.firstIn(m.Target, roots), m)
	}
	return nil
}

// firstIn is the index of the first mount of a folder in dir that nothing covers, else the end.
func (b *building) firstIn(dir string, folders []string) int {
	at := slices.IndexFunc(b.mounts, func(root mounts.Mount) bool {
		return root.Target != dir && paths.Inside(root.Target, dir) && slices.Contains(folders, root.Target)
	})
	if at < 0 || slices.ContainsFunc(b.mounts[at:], func(later mounts.Mount) bool { return paths.Inside(dir, later.Target) }) {
		return len(b.mounts)
	}
	return at
}

func (b *building) noteFolders() {
	if b.Folders.NoGit != "" {
		b.note(NoticeGit, b.Folders.Project, "git cannot write in the sandbox: "+b.Folders.NoGit)
	}
	if b.Session != nil {
		for _, root := range b.Session.Unmapped {
			b.note(NoticeGroup, root, "group of "+escape.Quote(root)+" does not exist in the sandbox: the command cannot change files of that group in an overlay")
		}
	}
	for _, o := range b.Others {
		b.note(NoticeOwner, o.Dir, fmt.Sprintf("root has no privileges in the sandbox, and %s belongs to user %d: the command cannot write to it", escape.Quote(o.Dir), o.UID))
	}
	b.noteUnguarded(b.Unguarded)
}

func (b *building) sessionMounts() mounts.Plan {
	if b.Session == nil {
		return nil
	}
	return b.Session.Mounts
}

func (b *building) first() string {
	if b.Folders.Project != "" {
		return b.Folders.Project
	}
	for _, list := range [...][]string{b.roots(), b.Folders.Direct, b.Folders.ReadOnly} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}

// network has the mounts for a network.
func (b *building) network() mounts.Plan {
	switch {
	case b.policy.Strict, b.policy.Root:
		return b.strictNetwork()
	case b.policy.HostNetwork:
		return mounts.Plan{mounts.ROBind("/run/systemd/resolve", "/run/systemd/resolve").Try()}
	}
	return b.Network
}
