//go:build linux

package review

import (
	"slices"
	"strings"
	"unicode"

	"github.com/nsrun/nsrun/overlay"
)

func newModel(id string, changes []overlay.Change, several bool) *model {
	m := &model{id: id, several: several, width: 80, height: 24, diffOf: -1}
	m.rows = make([]row, len(changes))
	var open []int // directories that contain the next change
	for i, c := range changes {
		for len(open) > 0 && !lies(c, m.rows[open[len(open)-1]].Change) {
			m.rows[open[len(open)-1]].end = i
			open = open[:len(open)-1]
		}
		name := m.pathText(c.Root, c.Path)
		if c.Mode.IsDir() && name != "/" {
			name += "/"
		}
		m.rows[i] = row{Change: c, name: name, end: i + 1}
		if c.Mode.IsDir() && c.Kind != overlay.Deleted {
			open = append(open, i)
		}
	}
	for _, i := range open {
		m.rows[i].end = len(changes)
	}
	for i := range m.rows {
		r := &m.rows[i]
		r.group = r.end > i+1 && r.Kind != overlay.Modified
	}
	m.refilter(0)
	m.cursor = 0
	return m
}

// lies reports whether c is in the directory dir.
func lies(c, dir overlay.Change) bool {
	return c.Root == dir.Root && (dir.Path == "." || strings.HasPrefix(c.Path, dir.Path+"/"))
}

// refilter rebuilds the list. With a filter it has the rows that match, and all deletions; without, all rows but those
// in closed directories. Files that run later come first. The cursor goes to the row at, or to the directory that hides
// it, or to the next match.
func (m *model) refilter(at int) {
	m.shown = m.shown[:0]
	m.cursor = 0
	fold := strings.IndexFunc(m.filter, unicode.IsUpper) < 0
	found, closed := false, 0 // rows before closed are in a closed directory
	for i := range m.rows {
		r := &m.rows[i]
		name := r.name
		if m.filter != "" && fold {
			name = strings.ToLower(name)
		}
		r.match = m.filter == "" || strings.Contains(name, m.filter)
		if m.filter == "" {
			if i < closed && !m.own(i) {
				continue
			}
			if r.group && !r.open && i >= closed {
				closed = r.end
			}
		}
		if r.match && !found {
			m.cursor, found = len(m.shown), i >= at || m.filter == "" && i < at && at < closed && !m.own(at)
		}
		if r.match || r.Kind == overlay.Deleted {
			m.shown = append(m.shown, i)
		}
	}
	m.urgentFirst()
	m.settle()
}

// urgentFirst moves files that run later to the top, and leaves the cursor on its row.
func (m *model) urgentFirst() {
	at := m.current()
	slices.SortStableFunc(m.shown, func(a, b int) int {
		switch first, second := m.rows[a].Runs != "", m.rows[b].Runs != ""; {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	m.cursor = max(slices.Index(m.shown, at), 0)
}

// own reports whether a row has a line of its own even in a closed directory.
func (m *model) own(i int) bool { return m.rows[i].Special != "" || m.rows[i].Runs != "" }

// plain counts the rows in a closed directory before the first one that has a line of its own.
func (m *model) plain(i int) int {
	n := i + 1
	for n < m.rows[i].end && !m.own(n) {
		n++
	}
	return n - i - 1
}

// unfold opens or closes the new directory under the cursor, and reports whether it is one.
func (m *model) unfold() bool {
	i := m.current()
	if i < 0 || !m.rows[i].group || m.filter != "" {
		return false
	}
	m.rows[i].open = !m.rows[i].open
	m.refilter(i)
	return true
}

// unfoldAll opens or closes all new directories.
func (m *model) unfoldAll(open bool) {
	at := max(m.current(), 0)
	for i := range m.rows {
		m.rows[i].open = open && m.rows[i].group
	}
	if m.filter == "" {
		m.refilter(at)
	}
}

// jump goes to the next match of the filter (step 1), or to the previous one (-1).
func (m *model) jump(step int) {
	if m.filter == "" {
		m.message = "there is no filter; / starts one"
		return
	}
	n := len(m.shown)
	for k := 1; k <= n; k++ {
		at := ((m.cursor+step*k)%n + n) % n
		if m.rows[m.shown[at]].match {
			m.cursor = at
			return
		}
	}
	m.message = "nothing matches"
}
