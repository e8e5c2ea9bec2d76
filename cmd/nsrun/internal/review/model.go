//go:build linux

package review

import (
	"fmt"
	"path/filepath"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// The state of `nsrun review`. It knows no terminal and no
// session: review.go has those, keys.go says what keys do to it, view.go makes lines of it.

// A mark says what is to become of a change.
type mark uint8

const (
	markKeep mark = iota // in the session
	markCommit
	markDrop
	markMixed // a directory with different marks in it
)

// row is one change in the list.
type row struct {
	overlay.Change
	name  string // as it is shown, not escaped yet
	end   int    // the row behind what lies in this directory
	group bool   // a new directory with something in it, which has the mark of that
	open  bool   // what is in the group has lines of its own
	mark  mark   // not used for groups
	match bool   // the filter is met
}

// A tally says how many rows that are not groups there are before a row, and how many of these have which mark.
type tally struct{ rows, commit, drop int }

// model is the whole state.
type model struct {
	id            string
	several       bool // roots
	width, height int

	rows   []row
	tally  []tally // by row, and one more; nil: marks have changed
	shown  []int   // rows that are in the list
	cursor int     // in shown
	top    int     // in shown, the first in the window

	inDiff   bool // keys move the diff
	diff     *diffText
	diffOf   int // the row whose diff that is; -1: none
	diffTop  int
	diffLeft int

	filter  string
	editing bool   // the filter is being typed
	old     string // the filter before that
	from    int    // the row under the cursor then

	page    *page  // nil: list and diff are seen
	busy    string // what is being done; empty: nothing is
	message string // one line, until the next key

	choices []overlay.Choice      // for the next commit
	details []diff.ConflictDetail // of the conflicts that the last one met
}

// action is what a key asks of the driver.
type action uint8

const (
	actNone action = iota
	actQuit
	actInterrupt
	actSuspend
	actApply  // commit and drop what is marked
	actCancel // stop doing that
)

// pathText is how a path is called: by itself, if there is one root only.
func (m *model) pathText(root, path string) string {
	if m.several {
		return filepath.Join(root, path)
	}
	return path
}

// current is the row under the cursor, -1 if the list is empty.
func (m *model) current() int {
	if m.cursor < len(m.shown) {
		return m.shown[m.cursor]
	}
	return -1
}

// markOf is the mark of a row; that of a group is what all in it have.
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

// in counts what is in a directory.
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

// setMark marks a row, and all in it if it is a group.
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

// toggleAll chooses all that the filter shows and nobody dropped, or none of it.
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

// counts says how many rows have which mark. Directories that are made for what is
// committed in them count as committed.
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

// groupFate is what becomes of the new directory itself: it is made as soon as
// something in it is committed, and dropped only with all that is in it.
func (m *model) groupFate(i int) mark {
	switch in := m.in(i); {
	case in.commit > 0:
		return markCommit
	case in.drop == in.rows:
		return markDrop
	}
	return markKeep
}

// page is text to be read, and the keys that lead on.
type page struct {
	title string
	lines []pageLine
	keys  string // for the last line
	press func(m *model, k screen.Key) action
	top   int

	// first is asked about each key before it scrolls. Nil: nobody is.
	first func(m *model, k screen.Key) (a action, ok bool)
}

// pageLine is a line of a page. What is in it may be hostile.
type pageLine struct {
	text  string
	style screen.Style
}

func (p *page) add(style screen.Style, format string, args ...any) {
	p.lines = append(p.lines, pageLine{fmt.Sprintf(format, args...), style})
}
