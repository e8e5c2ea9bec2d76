package plan

import (
	"fmt"
	"path"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// own hides nsrun's own directories, whatever the rules say.
func (b *building) own() error {
	for _, dir := range b.owned() {
		if err := b.keepsOut(dir); err != nil {
			return err
		}
		if !b.inOwned(dir.Dir) {
			b.insert(len(b.mounts), mounts.Block(dir.Dir))
		}
	}
	for _, dir := range b.Kept {
		if err := b.keepsOut(dir); err != nil {
			return err
		}
		for i, m := range b.mounts {
			if m.Kind == mounts.KindBind && !m.ReadOnly && b.from[i] != PlaygroundLayer && paths.Inside(m.Target, dir.Dir) {
				return b.ofRule(i, fmt.Errorf("%s in %s would be writable, and nsrun reads its settings there",
					escape.Quote(m.Target), escape.Quote(dir.Dir)))
			}
		}
	}
	return nil
}

// ofRule adds to an error about a mount which rule asks for it.
func (b *building) ofRule(mount int, err error) error {
	for _, rules := range [...]struct {
		layer Layer
		list  []Rule
	}{{RuleLayer, b.Rules}, {PathLayer, b.Paths}} {
		for i, rule := range rules.list {
			if b.from[mount] == rules.layer && slices.ContainsFunc(rule.Found, func(f Found) bool { return f.Bind.Target == b.mounts[mount].Target }) {
				return &RuleError{rules.layer == PathLayer, i, err}
			}
		}
	}
	return err
}

// ownInside shows an empty directory for each hidden one of nsrun's, for an nsrun inside the sandbox.
func (b *building) ownInside() {
	b.at = OwnLayer
	for i, from := range slices.Clone(b.from) {
		if from == OwnLayer && b.mounts[i].Kind == mounts.KindBlock {
			m := mounts.Tmpfs(b.mounts[i].Target).Try()
			m.Perm, m.MustExist = 0o700, true
			b.insert(len(b.mounts), m)
		}
	}
}

// owned are nsrun's own directories, and the playground if it is in none of them.
func (b *building) owned() []Own {
	play := b.Playground.At
	if !b.hasPlay || b.Data != "" && paths.Inside(play, b.Data) {
		return b.Own
	}
	return append(slices.Clip(b.Own), Own{Dir: play, At: play})
}

func (b *building) inOwned(dir string) bool {
	return slices.ContainsFunc(b.owned(), func(own Own) bool { return own.Dir != dir && paths.Inside(dir, own.Dir) })
}

// keeps reports whether the directory could be moved away and replaced if a path were writable.
func (own *Own) keeps(name string) bool {
	if own.Copies && name == path.Dir(own.Dir) {
		return false // ~/.cache: what is hidden in it is a mount point, which cannot be moved
	}
	return paths.Inside(own.At, name) || paths.Inside(own.Dir, name)
}

// keepsOut refuses to make a parent of nsrun's directory writable.
func (b *building) keepsOut(own Own) error {
	if play := b.Playground.At; b.hasPlay && own.Dir != play && paths.Inside(own.Dir, play) {
		return fmt.Errorf("the playground %s would contain the directory %s", escape.Quote(play), escape.Quote(own.Dir))
	}
	for i, m := range b.mounts {
		switch {
		case m.Kind != mounts.KindBind || m.ReadOnly || b.from[i] == PlaygroundLayer:
			continue
		case own.keeps(m.Target):
			return b.ofRule(i, fmt.Errorf("%s would be writable, and so would nsrun's directory %s", escape.Quote(m.Target), escape.Quote(own.Dir)))
		}
	}
	return nil
}
