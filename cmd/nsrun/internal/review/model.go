//go:build linux

package review

import (
	"fmt"
	"path/filepath"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// The state of `nsrun review`, without terminal and session (review.go). keys.go changes it; view.go draws it.

// A mark says what to do with a change.
type mark uint8

const (
	markKeep mark = iota // leave it in the session
	markCommit
	markDrop
	markMixed // a directory with different marks in it
)

// row is one change in the list.
type row struct {
	overlay.Change
	name  string // not escaped yet
	end   int    // the first row after the contents of this directory
	group bool   // a new directory that is not empty; its mark is that of its contents
	open  bool   // the contents of the group are in the list
	mark  mark   // not used for groups
	match bool   // the filter matches
}

// A tally counts rows that are not groups: all, and those that are marked.
type tally struct{ rows, commit, drop int }

type model struct {
	id            string
	several       bool // more than one root
	width, height int

	rows   []row
	tally  []tally // of the rows before each row, and of all; nil: marks have changed
	shown  []int   // rows in the list
	cursor int     // index in shown
	top    int     // index in shown of the first one in the window

	inDiff   bool // keys move the diff
	diff     *diffText
	diffOf   int // the row that diff belongs to; -1: none
	diffTop  int
	diffLeft int

	filter  string
	editing bool   // the filter is being edited
	old     string // the filter before editing
	from    int    // the row under the cursor before editing

	page    *page  // nil: list and diff are shown
	busy    string // progress of a commit; empty: there is none
	message string // one line, until the next key

	choices []overlay.Choice      // for the next commit
	details []diff.ConflictDetail // of the last commit's conflicts
}

// action is what a key asks of the reviewer.
type action uint8

const (
	actNone action = iota
	actQuit
	actInterrupt
	actSuspend
	actApply  // commit and drop the marked changes
	actCancel // cancel that
)

// pathText returns a path as it is shown: with its root, if there are several.
func (m *model) pathText(root, path string) string {
	if m.several {
		return filepath.Join(root, path)
	}
	return path
}

// current returns the row under the cursor, or -1 if the list is empty.
func (m *model) current() int {
	if m.cursor < len(m.shown) {
		return m.shown[m.cursor]
	}
	return -1
}

// markOf returns the mark of a row. A group has the mark that all its contents have, or markMixed.
func (m *model) markOf(i int) mark {
	if !m.rows[i].group {
		return m.rows[i].mark
	}
	switch in := m.in(i); {
	case in.commit == in.rows:
		return markCommit
	case in.drop == in.rows:
		return markDrop
	case in.commit+in.drop > 0:
		return markMixed
	}
	return markKeep
}

// in counts the contents of a directory.
func (m *model) in(i int) tally {
	if m.tally == nil {
		m.tally = make([]tally, len(m.rows)+1)
		var t tally
		for k, r := range m.rows {
			m.tally[k] = t
			if r.group {
				continue
			}
			t.rows++
			switch r.mark {
			case markCommit:
				t.commit++
			case markDrop:
				t.drop++
			}
		}
		m.tally[len(m.rows)] = t
	}
	a, b := m.tally[i+1], m.tally[m.rows[i].end]
	return tally{b.rows - a.rows, b.commit - a.commit, b.drop - a.drop}
}

// setMark marks a row, with its contents if it is a group.
func (m *model) setMark(i int, to mark) {
	m.tally = nil
	if !m.rows[i].group {
		m.rows[i].mark = to
		return
	}
	for j := i; j < m.rows[i].end; j++ {
		m.rows[j].mark = to
	}
}

// toggleAll marks all matches of the filter to be committed, except dropped ones. If all are marked, it unmarks them.
func (m *model) toggleAll() {
	m.tally = nil
	to := markKeep
	var list []int
	for i, r := range m.rows {
		if r.group || !r.match || r.mark == markDrop {
			continue
		}
		list = append(list, i)
		if r.mark == markKeep {
			to = markCommit
		}
	}
	for _, i := range list {
		m.rows[i].mark = to
	}
}

// counts counts the rows by what will become of them.
func (m *model) counts() (commit, drop, keep int) {
	for i := range m.rows {
		r := &m.rows[i]
		got := r.mark
		if r.group {
			got = m.groupFate(i)
		}
		switch got {
		case markCommit:
			commit++
		case markDrop:
			drop++
		default:
			keep++
		}
	}
	return commit, drop, keep
}

// groupFate says what will become of the new directory itself: it is created if anything in it is committed, and
// dropped only together with all its contents.
func (m *model) groupFate(i int) mark {
	switch in := m.in(i); {
	case in.commit > 0:
		return markCommit
	case in.drop == in.rows:
		return markDrop
	}
	return markKeep
}

// page is text in place of list and diff.
type page struct {
	title string
	lines []pageLine
	keys  string // help for the last line
	press func(m *model, k screen.Key) action
	top   int

	// first may handle a key before it scrolls. Nil: keys that scroll do so.
	first func(m *model, k screen.Key) (a action, ok bool)
}

// pageLine is a line of a page. Its text may be hostile.
type pageLine struct {
	text  string
	style screen.Style
}

func (p *page) add(style screen.Style, format string, args ...any) {
	p.lines = append(p.lines, pageLine{fmt.Sprintf(format, args...), style})
}
