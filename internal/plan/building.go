package plan

import (
	"slices"

	"github.com/nsrun/nsrun/mounts"
)

type building struct {
	*Facts
	policy  *Policy
	at      Layer
	mounts  mounts.Plan
	from    []Layer // of each of mounts
	hasPlay bool    // there is a playground
	notices []Notice
	later   []string // see Sandbox
	absent  []Gone   // see Sandbox
}

func (b *building) add(list ...mounts.Mount) error {
	b.insert(len(b.mounts), list...)
	return nil
}

func (b *building) insert(at int, list ...mounts.Mount) {
	b.mounts = slices.Insert(b.mounts, at, list...)
	b.from = slices.Insert(b.from, at, slices.Repeat([]Layer{b.at}, len(list))...)
}

// drop removes mount i.
func (b *building) drop(i int) {
	b.mounts, b.from = slices.Delete(b.mounts, i, i+1), slices.Delete(b.from, i, i+1)
}

func (b *building) note(kind NoticeKind, path, text string) {
	b.notices = append(b.notices, Notice{kind, path, text})
}

func (b *building) roots() []string {
	if b.Session == nil {
		return nil
	}
	return b.Session.Roots
}

func (b *building) noteUnguarded(list []string) {
	for _, text := range list {
		b.note(NoticeUnguarded, "", text)
	}
}

func block(list []string) (p mounts.Plan) {
	for _, path := range list {
		p = append(p, mounts.Block(path))
	}
	return p
}

func (b *building) guarded() (list []string) {
	for _, m := range b.InPlace {
		if m.ReadOnly {
			list = append(list, m.Target)
		}
	}
	for _, rules := range [...][]Rule{b.Rules, b.Paths} {
		for _, r := range rules {
			for _, m := range r.Git {
				list = append(list, m.Target)
			}
		}
	}
	return list
}
