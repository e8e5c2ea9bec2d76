//go:build linux

package review

import (
	"fmt"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

func (m *model) pageKey(k screen.Key) action {
	p := m.page
	if p.first != nil {
		if a, ok := p.first(m, k); ok {
			return a
		}
	}
	if scroll(k, &p.top, m.pageHeight(), len(p.lines)) {
		return actNone
	}
	return p.press(m, k)
}

// back closes the page on the usual keys.
func back(m *model, k screen.Key) action {
	switch k {
	case "esc", "q", "n", "enter", "?", "b":
		m.page = nil
	}
	return actNone
}

func helpPage() *page {
	p := &page{title: "keys", keys: "q back", press: back}
	for _, line := range []string{
		"j k, arrows        move, or scroll the diff when that has the keys",
		"g G, Home End      to the first, to the last",
		"PgUp PgDn          a page",
		"tab                from the list to the diff and back",
		"enter              open or close a new directory; else as tab",
		"= -                open all new directories, close all",
		"J K                scroll the diff by a line",
		"ctrl-d ctrl-u      scroll the diff by half a page",
		"h l, left right    look at the rest of long lines",
		"/                  show only names that hold a text, and deletions; esc: all",
		"n N                next and previous name that the filter matches",
		"",
		"space              commit this change, or not; a new directory: all in it",
		"a                  commit all that the filter matches, or none",
		"d                  drop this change: it will be lost",
		"u                  neither: it stays in the session",
		"c                  do it, after a question",
		"",
		"q, ctrl-C          quit without doing anything",
		"ctrl-Z             suspend",
		"",
		"A added  M modified  D deleted  T another type of file",
		"[+] commit  [-] drop  [ ] keep  [~] some of what is in it",
	} {
		p.add(0, "%s", line)
	}
	return p
}

func errorsPage(list []error) *page {
	p := &page{title: "not all changes could be read", keys: "q go on", press: back}
	for _, err := range list {
		p.add(screen.Red, "%v", err)
	}
	return p
}

// confirm asks whether to commit and drop, or says why that is impossible.
func (m *model) confirm() {
	commit, drop, keep := m.counts()
	if commit+drop == 0 {
		m.message = "nothing is marked: space commits, d drops, a commits all"
		return
	}
	if _, problem := m.choice(); problem != "" {
		m.message = problem
		return
	}
	m.choices = nil
	p := &page{title: fmt.Sprintf("commit %d, drop %d, keep %d?", commit, drop, keep), keys: "y yes   n no"}
	p.press = func(m *model, k screen.Key) action {
		switch k {
		case "y", "Y":
			m.page = nil
			return actApply
		case "n", "N", "q", "esc":
			m.page = nil
		}
		return actNone
	}
	section := func(title string, want mark, style screen.Style) {
		p.add(screen.Bold, "%s", title)
		for _, deletions := range [...]bool{true, false} {
			for i := 0; i < len(m.rows); i++ {
				r := &m.rows[i]
				got, note := r.mark, ""
				if r.group {
					got = m.groupFate(i)
					if n := m.plain(i); got == want && m.markOf(i) == want && n > 0 {
						note = fmt.Sprintf(" (and %d below)", n)
					}
				}
				if got == want && (r.Kind == overlay.Deleted) == deletions {
					p.add(style, "  %c %s%s%s", r.Kind.Letter(), r.name, r.note(), note)
				}
				if note != "" {
					i += m.plain(i)
				}
			}
		}
	}
	if commit > 0 {
		section("into the project:", markCommit, 0)
	}
	if drop > 0 {
		section("dropped from the session:", markDrop, screen.Red)
	}
	if keep > 0 {
		p.add(0, "%s in the session", console.Plural(keep, "change")+" left")
	}
	m.page = p
}

// specialPage lists changes that only --allow-special commits.
func (m *model) specialPage(list []overlay.Special) *page {
	p := &page{title: "nothing was done: some marked changes may not be committed", keys: "u unmark these   q back"}
	for _, s := range list {
		p.add(screen.Red, "%s %s", m.pathText(s.Root, s.Path), s.Why)
	}
	p.add(0, "")
	p.add(0, "nsrun review --allow-special commits them")
	p.press = func(m *model, k screen.Key) action {
		if k != "u" {
			return back(m, k)
		}
		type place struct{ root, path string }
		these := make(map[place]bool)
		for _, s := range list {
			these[place{s.Root, s.Path}] = true
		}
		for i := range m.rows {
			if r := &m.rows[i]; these[place{r.Root, r.Path}] {
				r.mark = markKeep
			}
		}
		m.tally = nil
		m.page = nil
		m.message = console.Plural(len(list), "change") + " unmarked"
		return actNone
	}
	return p
}

// scroll moves a position by a key, and reports whether the key scrolls. all is the number of lines.
func scroll(k screen.Key, at *int, height, all int) bool {
	switch k {
	case "j", "down":
		*at++
	case "k", "up":
		*at--
	case "g", "home":
		*at = 0
	case "G", "end":
		*at = all
	case "pgdn", "ctrl-f":
		*at += max(height-1, 1)
	case "pgup", "ctrl-b":
		*at -= max(height-1, 1)
	default:
		return false
	}
	return true
}
