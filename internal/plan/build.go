package plan

import (
	"fmt"
	"path"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// A Sandbox is what Build decides.
type Sandbox struct {
	Mounts mounts.Plan
	Layers []Layer // of each of the Mounts
	Dir    string  // the working directory
	Env    []string
}

// building is a Sandbox that is not complete.
type building struct {
	*Facts
	policy  *Policy
	at      Layer
	mounts  mounts.Plan
	from    []Layer // of each of mounts
	hasPlay bool    // there is a playground
	notices []Notice
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
	b.hideLater()
	s := Sandbox{Mounts: b.mounts, Layers: b.from}
	s.Dir = workingDir(p.WorkingDir, b.first(), f.Home, b.hasPlay)
	s.Env = b.environment(s.Dir)
	return s, b.notices, nil
}

// add mounts over all that is there.
func (b *building) add(list ...mounts.Mount) error {
	b.insert(len(b.mounts), list...)
	return nil
}

// insert mounts below what is there from an index on.
func (b *building) insert(at int, list ...mounts.Mount) {
	b.mounts = slices.Insert(b.mounts, at, list...)
	b.from = slices.Insert(b.from, at, slices.Repeat([]Layer{b.at}, len(list))...)
}

func (b *building) note(kind NoticeKind, path, text string) {
	b.notices = append(b.notices, Notice{kind, path, text})
}

// noteFolders tells what commands cannot do in folders.
func (b *building) noteFolders() {
	if b.Folders.NoGit != "" {
		b.note(NoticeGit, b.Folders.Project, "git cannot write in the sandbox: "+b.Folders.NoGit)
	}
	if b.Session != nil {
		for _, root := range b.Session.Unmapped {
			b.note(NoticeGroup, root, "group of "+escape.Quote(root)+" does not exist in the sandbox: what belongs to it cannot be changed in an overlay")
		}
	}
	for _, o := range b.Others {
		b.note(NoticeOwner, o.Dir, fmt.Sprintf("root has no privileges in the sandbox, and %s belongs to user %d: it cannot be written to", escape.Quote(o.Dir), o.UID))
	}
	b.noteUnguarded(b.Unguarded)
}

func (b *building) noteUnguarded(list []string) {
	for _, text := range list {
		b.note(NoticeUnguarded, "", text)
	}
}

func (b *building) sessionMounts() mounts.Plan {
	if b.Session == nil {
		return nil
	}
	return b.Session.Mounts
}

// roots are those of the session.
func (b *building) roots() []string {
	if b.Session == nil {
		return nil
	}
	return b.Session.Roots
}

// first is the folder that commands work in.
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

// rules are mounted in their order. What is hidden stays so below a directory that a rule shows, and where a pattern
// leads to it.
func (b *building) rules(list []Rule, asked bool) error {
	for i, rule := range list {
		for _, found := range rule.Found {
			switch {
			case rule.Access == Block:
				m := mounts.Block(found.At)
				m.Optional = false // it was there, and may have been moved
				b.insert(len(b.mounts), m)
				continue
			case found.Hidden && found.Linked:
				return &RuleError{asked, i, ErrHidden}
			case found.Hidden:
				continue // one of many that a pattern means
			}
			b.insert(len(b.mounts), found.Bind)
			for _, hidden := range [...][]string{b.Secrets, b.Sockets} {
				for _, path := range hidden {
					if path != found.At && paths.Inside(path, found.At) {
						b.insert(len(b.mounts), mounts.Block(path))
					}
				}
			}
		}
		b.insert(len(b.mounts), rule.Git...)
		b.noteUnguarded(rule.Unguarded)
	}
	return nil
}

// network is what it takes to have the host's network, or one by rules.
func (b *building) network() mounts.Plan {
	if b.policy.HostNetwork {
		return mounts.Plan{mounts.ROBind("/run/systemd/resolve", "/run/systemd/resolve").Try()}
	}
	return b.Network
}

// own hides nsrun's own directories, whatever the rules say: sessions are no business of what runs in one.
func (b *building) own() error {
	for _, dir := range b.owned() {
		if err := b.keepsOut(dir); err != nil {
			return err
		}
		b.insert(len(b.mounts), mounts.Block(dir.Dir))
	}
	return nil
}

// owned are nsrun's own directories, with the playground where that is in none of them.
func (b *building) owned() []Own {
	play := b.Playground.At
	if !b.hasPlay || b.Data != "" && paths.Inside(play, b.Data) {
		return b.Own
	}
	return append(slices.Clip(b.Own), Own{Dir: play, At: play})
}

// keepsOut refuses to make writable what holds a directory of nsrun's: it could be moved away, and another one put in its
// place.
func (b *building) keepsOut(own Own) error {
	if play := b.Playground.At; b.hasPlay && own.Dir != play && paths.Inside(own.Dir, play) {
		return fmt.Errorf("the playground %s would have the directory %s in it", escape.Quote(play), escape.Quote(own.Dir))
	}
	for i, m := range b.mounts {
		switch {
		case m.Kind != mounts.KindBind || m.ReadOnly || b.from[i] == PlaygroundLayer:
			continue
		case own.Copies && m.Target == path.Dir(own.Dir):
			continue // ~/.cache: what is hidden in it is a mount point, which cannot be moved
		case paths.Inside(own.At, m.Target) || paths.Inside(own.Dir, m.Target):
			return fmt.Errorf("%s would be writable, and nsrun's directory %s with it", escape.Quote(m.Target), escape.Quote(own.Dir))
		}
	}
	return nil
}
