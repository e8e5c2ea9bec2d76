//go:build linux

package review

import (
	"path/filepath"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// The page of `nsrun review` on which conflicts are decided, one by one or all at once.

// undecided is a conflict on that page.
type undecided struct {
	overlay.Conflict
	lines  []string           // see diff.ConflictDetail
	prefer overlay.Preference // Refuse: not decided yet
}

var preferNames = [...]string{overlay.Refuse: "?", overlay.Theirs: "theirs", overlay.Ours: "ours", overlay.Merge: "merge"}

// conflictPage lists conflicts with both versions.
func (m *model) conflictPage(list []overlay.Conflict) *page {
	all := make([]undecided, len(list))
	for i, c := range list {
		all[i] = undecided{Conflict: c}
		if i < len(m.details) {
			all[i].lines = m.details[i].Lines
		}
	}
	at := 0
	p := &page{title: "nothing was done: " + console.Plural(len(list), "conflict")}
	p.keys = "t theirs, the session's   o ours, the project's   m merge   q back"
	if len(list) > 1 {
		p.keys = "t theirs, the session's   o ours, the project's   m merge   T O M all   j k move   q back"
	}
	show := func() { m.showConflicts(p, all, at) }
	show()
	decide := func() action {
		for i := range all {
			if all[i].prefer == overlay.Refuse {
				at = i
				show()
				return actNone
			}
		}
		for _, c := range all {
			m.choices = append(m.choices, overlay.Choice{Path: filepath.Join(c.Root, literal(c.Path)), Prefer: c.prefer})
		}
		m.page = nil
		return actApply
	}
	keys := map[screen.Key]overlay.Preference{"t": overlay.Theirs, "o": overlay.Ours, "m": overlay.Merge}
	allKeys := map[screen.Key]overlay.Preference{"T": overlay.Theirs, "O": overlay.Ours, "M": overlay.Merge}
	p.first = func(m *model, k screen.Key) (action, bool) {
		if prefer, ok := keys[k]; ok {
			all[at].prefer = prefer
			return decide(), true
		}
		if prefer, ok := allKeys[k]; ok {
			for i := range all {
				all[i].prefer = prefer
			}
			return decide(), true
		}
		switch k {
		case "j", "down":
			at = min(at+1, len(all)-1)
		case "k", "up":
			at = max(at-1, 0)
		case "u":
			all[at].prefer = overlay.Refuse
		default:
			return actNone, false
		}
		show()
		return actNone, true
	}
	p.press = back
	return p
}

// showConflicts writes the lines of the page, and scrolls to the conflict with index at.
func (m *model) showConflicts(p *page, all []undecided, at int) {
	p.lines = p.lines[:0]
	first, last := 0, 0
	for i, c := range all {
		style := screen.Bold
		if i == at {
			first = len(p.lines)
			style = screen.Reverse
		}
		p.add(style, "[%s] %s %s", preferNames[c.prefer], m.pathText(c.Root, c.Path), c.Why)
		if c.Index == "" {
			p.add(0, "  ours, the project's    %s", diff.Version(c.Project))
			p.add(0, "  theirs, the session's  %s", diff.Version(c.Session))
		}
		for _, line := range c.lines {
			p.add(0, "  %s", line)
		}
		if i == at {
			last = len(p.lines)
		}
	}
	p.top = max(min(p.top, first), min(last-m.pageHeight(), first))
}

// decided says how conflicts were decided. Empty: there were none.
func (m *model) decided() string {
	if len(m.choices) == 0 {
		return ""
	}
	for _, c := range m.choices {
		if c.Prefer != m.choices[0].Prefer {
			return " (conflicts: as chosen)"
		}
	}
	switch m.choices[0].Prefer {
	case overlay.Theirs:
		return " (conflicts: the session's)"
	case overlay.Ours:
		return " (conflicts: the project's)"
	}
	return " (conflicts: merged)"
}
