package plan

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// What a rule hides shall be hidden when it comes up later, too: because somebody on the host makes it while a command
// runs, or replaces it, as editors do when they save. What is mounted over a file of the host is gone when that is
// replaced: so
//
//   - in an overlay a name can be marked as deleted below the command's layer, and what is mounted over a file of the
//     overlay stays where it is, whatever becomes of the file below;
//   - a directory that is shown read-only is shown through an overlay, to the same end;
//   - a copy, and what is the sandbox's own, does not change;
//   - where commands write in place, and for names that are not known yet, there is no such thing, and the command is
//     not started, unless the policy says that this may be.

// A LaterError says that a hidden path could appear later and be seen.
type LaterError struct {
	Dir     string // where; commands see there what the host has at that moment
	InPlace bool   // commands write there directly
	Apart   bool   // what they write is kept apart
}

func (e *LaterError) Error() string {
	if e.Apart && !e.InPlace {
		return e.text() + " (try: --engine copy, or --block-existing)"
	}
	return e.text() + " (try: --block-existing)"
}

func (e *LaterError) text() string {
	if e.InPlace {
		return "commands write directly to " + escape.Quote(e.Dir) + ", so they would see what replaces it or appears there later"
	}
	return "commands would see a file of such a name that appears in " + escape.Quote(e.Dir) + " later"
}

func (b *building) pathRules() (list []pathrule.Rule) {
	for _, r := range slices.Concat(b.Rules, b.Paths) {
		list = append(list, pathrule.Rule{Access: r.Access, Pattern: r.Pattern})
	}
	return list
}

// staysBlocked keeps hidden what rules hide.
func (b *building) staysBlocked() error {
	all := b.pathRules()
	for n, rules := range [...][]Rule{b.Rules, b.Paths} {
		for i, r := range rules {
			if r.Access != Block || r.Pattern.Except {
				continue
			}
			err := b.keepBlocked(&r, all)
			if err == nil {
				continue
			}
			// What exists is hidden anyway; a notice says that it can be replaced.
			if !b.policy.BlockExisting && (r.Around == nil || r.Around.Missing) {
				return &RuleError{n == 1, i, err}
			}
			b.note(NoticeLater, err.Dir, err.text())
		}
	}
	return nil
}

// keepBlocked keeps hidden what one rule hides. Nil: it will.
func (b *building) keepBlocked(r *Rule, all []pathrule.Rule) *LaterError {
	if base, literal := r.Pattern.Base(); !literal {
		return b.keepPattern(r, base)
	}
	around := r.Around
	if around == nil || pathrule.Verdict(all, around.At) != Block {
		return nil // a later rule shows it
	}
	if around.Missing {
		b.later = append(b.later, around.At)
	}
	g := b.ground(around.At)
	if g < 0 {
		return nil
	}
	if b.mounts[g].Over {
		g-- // of the same target
	}
	m := &b.mounts[g]
	switch {
	case !live(m, b.from[g]), m.Kind == mounts.KindOverlay && !around.Missing:
		return nil
	case m.Kind == mounts.KindOverlay && b.hideName(m, around):
		return nil
	case m.Kind == mounts.KindBind && m.ReadOnly && b.policy.Temp != "":
		// What appears in a directory that contains something hidden is not allowed.
		b.insert(len(b.mounts), mounts.Block(around.At))
		return nil
	case m.Kind == mounts.KindBind && m.ReadOnly && b.shade(g, around):
		return nil
	}
	return laterError(m, around.Dir)
}

func laterError(m *mounts.Mount, dir string) *LaterError {
	return &LaterError{Dir: dir, InPlace: m.Kind == mounts.KindBind && !m.ReadOnly, Apart: m.Kind == mounts.KindOverlay && !m.ReadOnly}
}

// keepPattern is keepBlocked for a pattern, whose future matches nobody knows.
func (b *building) keepPattern(r *Rule, base string) *LaterError {
	grounds := []int{b.ground(base + "/.")}
	for i := range b.mounts {
		if target := b.mounts[i].Target; paths.Inside(target, base) && r.Pattern.Below(target) && b.ground(target+"/.") == i {
			grounds = append(grounds, i)
		}
	}
	for _, g := range grounds {
		if g >= 0 && live(&b.mounts[g], b.from[g]) {
			dir := b.mounts[g].Target
			if paths.Inside(base, dir) {
				dir = base
			}
			return laterError(&b.mounts[g], dir)
		}
	}
	return nil
}

// ground is the index of the visible mount that a path lies in, not at; negative if there is none.
func (b *building) ground(name string) int {
	at := -1
	for i := range b.mounts {
		if m := &b.mounts[i]; m.Covers() && paths.Inside(name, m.Target) && m.Target != name {
			at = i
		}
	}
	if at >= 0 && b.mounts[at].Kind == mounts.KindBlock {
		return -1
	}
	return at
}

// live reports whether m shows the host's present files, unlike the copy of a session.
func live(m *mounts.Mount, layer Layer) bool {
	return m.Kind == mounts.KindOverlay || m.Kind == mounts.KindBind && layer != SessionLayer
}

// hideName lets an overlay hide the first missing part of a path.
func (b *building) hideName(m *mounts.Mount, around *Around) bool {
	if !paths.Inside(around.Dir, m.Target) {
		return false
	}
	var perms []mounts.Perm
	for dir := around.Dir; dir != m.Target; dir = path.Dir(dir) {
		d := around.Dirs[dir]
		switch {
		case d.Own:
			perms = append(perms, mounts.Perm{Path: strings.TrimPrefix(dir, m.Target+"/"), Perm: d.Perm})
		case !m.ReadOnly || d.Perm&0o5 != 0o5:
			return false
		}
	}
	m.Perms = append(slices.Clip(m.Perms), perms...)
	m.Hide = append(m.Hide, strings.TrimPrefix(firstMissing(around), m.Target+"/"))
	return true
}

func firstMissing(around *Around) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(around.At, around.Dir), "/")
	name, _, _ := strings.Cut(rest, "/")
	return path.Join(around.Dir, name)
}

// shade replaces the read-only bind with index g by an overlay without a name.
func (b *building) shade(g int, around *Around) bool {
	m, dir := b.mounts[g], around.Dir
	if dir == "/" {
		return !around.Missing // only root can replace what is there
	}
	d := around.Dirs[dir]
	if b.policy.NoHomeOverlay || b.policy.Root && paths.Inside(dir, b.first()) || !paths.Inside(dir, m.Target) || Below(b.Table, dir) != "" || !d.Own && d.Perm&0o5 != 0o5 {
		return false
	}
	source := path.Join(m.Source, strings.TrimPrefix(dir, m.Target))
	over := mounts.TmpOverlay(dir, source).RO() // what is mounted in it is mounted over the overlay's files
	if around.Missing {
		over.Temporary, over.Hide = false, []string{path.Base(firstMissing(around))}
	}
	perm := fs.FileMode(0o755)
	if d.Own {
		perm = d.Perm
	}
	b.at = b.from[g]
	b.insert(g+1, over.WithPerm(perm))
	return true
}
