//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// The state of `nsrun review`, and what keys do to it. It knows no terminal and no
// session: review.go has those, reviewview.go makes lines of it.

// A mark says what is to become of a change.
type mark uint8

const (
	markKeep mark = iota // in the session
	markCommit
	markDrop
	markMixed // a directory with different marks in it
)

// reviewRow is one change in the list.
type reviewRow struct {
	overlay.Change
	name  string // as it is shown, not escaped yet
	end   int    // the row behind what lies in this directory
	group bool   // a new directory with something in it, which has the mark of that
	open  bool   // what is in the group has lines of its own
	mark  mark   // not used for groups
	match bool   // the filter is met
}

// A tally says how many rows that are no groups there are before a row, and how many of these have which mark.
type tally struct{ rows, commit, drop int }

// reviewModel is the whole state.
type reviewModel struct {
	id            string
	several       bool // roots
	width, height int

	rows   []reviewRow
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

	page    *reviewPage // nil: list and diff are seen
	busy    string      // what is being done; empty: nothing is
	message string      // one line, until the next key

	choices []overlay.Choice      // for the next commit
	details []diff.ConflictDetail // of the conflicts that the last one met
}

// reviewAction is what a key asks of the driver.
type reviewAction uint8

const (
	actNone reviewAction = iota
	actQuit
	actInterrupt
	actSuspend
	actApply  // commit and drop what is marked
	actCancel // stop doing that
)

func newReview(id string, changes []overlay.Change, several bool) *reviewModel {
	m := &reviewModel{id: id, several: several, width: 80, height: 24, diffOf: -1}
	m.rows = make([]reviewRow, len(changes))
	var open []int // directories that hold what comes
	for i, c := range changes {
		for len(open) > 0 && !lies(c, m.rows[open[len(open)-1]].Change) {
			m.rows[open[len(open)-1]].end = i
			open = open[:len(open)-1]
		}
		name := m.pathText(c.Root, c.Path)
		if c.Mode.IsDir() && name != "/" {
			name += "/"
		}
		m.rows[i] = reviewRow{Change: c, name: name, end: i + 1}
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

// pathText is how a path is called: by itself, if there is one root only.
func (m *reviewModel) pathText(root, path string) string {
	if m.several {
		return filepath.Join(root, path)
	}
	return path
}

// lies reports whether c is in the directory dir.
func lies(c, dir overlay.Change) bool {
	return c.Root == dir.Root && (dir.Path == "." || strings.HasPrefix(c.Path, dir.Path+"/"))
}

// resize is told the size of the window.
func (m *reviewModel) resize(width, height int) {
	m.width, m.height = width, height
	m.settle()
}

// current is the row under the cursor, -1 if the list is empty.
func (m *reviewModel) current() int {
	if m.cursor < len(m.shown) {
		return m.shown[m.cursor]
	}
	return -1
}

// setDiff is given the diff of a row.
func (m *reviewModel) setDiff(row int, d *diffText) {
	if row != m.diffOf {
		m.diffTop, m.diffLeft = 0, 0
	}
	m.diff, m.diffOf = d, row
	m.settle()
}

// markOf is the mark of a row; that of a group is what all in it have.
func (m *reviewModel) markOf(i int) mark {
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
func (m *reviewModel) in(i int) tally {
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
func (m *reviewModel) setMark(i int, to mark) {
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
func (m *reviewModel) toggleAll() {
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
func (m *reviewModel) counts() (commit, drop, keep int) {
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
func (m *reviewModel) groupFate(i int) mark {
	switch in := m.in(i); {
	case in.commit > 0:
		return markCommit
	case in.drop == in.rows:
		return markDrop
	}
	return markKeep
}

// reviewChoice is what is to be done, in terms of package overlay.
type reviewChoice struct {
	commit, exclude, drop []string // absolute paths
}

// choice turns marks into paths. A path means everything in a directory too, so that
// some ways to mark a directory that was there before, and what is in it, cannot be had:
// then problem says which.
func (m *reviewModel) choice() (c reviewChoice, problem string) {
	path := func(i int) string { return filepath.Join(m.rows[i].Root, m.rows[i].Path) }
	for i := 0; i < len(m.rows); {
		r := &m.rows[i]
		switch m.markOf(i) {
		case markCommit:
			c.commit = append(c.commit, path(i))
			if r.group {
				i = r.end
				continue
			}
			for j := i + 1; j < r.end; {
				switch m.markOf(j) {
				case markCommit, markMixed:
					j++
				default:
					for _, in := range m.rows[j+1 : m.rows[j].end] {
						if !in.group && in.mark == markCommit {
							return c, m.rows[j].name + " can be left out only with all that is in it, for " + r.name + " is committed"
						}
					}
					if !utf8.ValidString(m.rows[j].name) {
						return c, m.rows[j].name + " cannot be left out, for " + r.name + " is committed"
					}
					c.exclude = append(c.exclude, filepath.Join(m.rows[j].Root, literal(m.rows[j].Path)))
					j = m.rows[j].end
				}
			}
		case markDrop:
			c.drop = append(c.drop, path(i))
			for _, in := range m.rows[i+1 : r.end] {
				if !in.group && in.mark != markDrop {
					return c, r.name + " can be dropped only with all that is in it"
				}
			}
			i = r.end
			continue
		}
		i++
	}
	return c, ""
}

// literal makes of a path a pattern that means nothing else.
func literal(p string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `\`, `\\`).Replace(p)
}

// refilter makes the list anew: what the filter meets, and deletions always; without one, all but what is in new
// directories that are closed. The cursor goes to the row at, or the next one that the filter meets, or the directory
// that hides it. What runs later by itself comes first.
func (m *reviewModel) refilter(at int) {
	m.shown = m.shown[:0]
	m.cursor = 0
	fold := strings.IndexFunc(m.filter, unicode.IsUpper) < 0
	found, closed := false, 0 // rows before closed are in a directory that is
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

// urgentFirst puts what runs later by itself before the rest, and leaves the cursor on its row.
func (m *reviewModel) urgentFirst() {
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

// own reports whether a row has a line of its own even in a directory that is closed.
func (m *reviewModel) own(i int) bool { return m.rows[i].Special != "" || m.rows[i].Runs != "" }

// plain is how many rows follow a directory that are in it and have no line of their own while it is closed.
func (m *reviewModel) plain(i int) int {
	n := i + 1
	for n < m.rows[i].end && !m.own(n) {
		n++
	}
	return n - i - 1
}

// unfold opens or closes the new directory under the cursor, and reports whether it is one.
func (m *reviewModel) unfold() bool {
	i := m.current()
	if i < 0 || !m.rows[i].group || m.filter != "" {
		return false
	}
	m.rows[i].open = !m.rows[i].open
	m.refilter(i)
	return true
}

// unfoldAll opens or closes all new directories.
func (m *reviewModel) unfoldAll(open bool) {
	at := max(m.current(), 0)
	for i := range m.rows {
		m.rows[i].open = open && m.rows[i].group
	}
	if m.filter == "" {
		m.refilter(at)
	}
}

// jump goes to the next row that the filter meets, or the one before.
func (m *reviewModel) jump(step int) {
	if m.filter == "" {
		m.message = "there is no filter; / begins one"
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

// settle puts everything that counts lines back into its bounds.
func (m *reviewModel) settle() {
	l := m.layout()
	m.cursor = bound(m.cursor, len(m.shown)-1)
	m.top = bound(m.top, len(m.shown)-l.list.height)
	m.top = max(min(m.top, m.cursor), m.cursor-max(l.list.height, 1)+1)
	if m.diff != nil {
		m.diffTop = bound(m.diffTop, m.diff.count()-l.diff.height)
		m.diffLeft = bound(m.diffLeft, maxLeft)
	}
	if m.page != nil {
		m.page.top = bound(m.page.top, len(m.page.lines)-m.pageHeight())
	}
}

// maxLeft bounds how far to the right a diff is looked at.
const maxLeft = 1 << 16

// bound returns n, but at least 0 and at most limit.
func bound(n, limit int) int { return max(0, min(n, limit)) }

// key does what a key says.
func (m *reviewModel) key(k screen.Key) reviewAction {
	m.message = ""
	defer m.settle()
	switch {
	case k == "ctrl-z":
		return actSuspend
	case m.busy != "":
		if k == "ctrl-c" {
			return actCancel
		}
		return actNone
	case k == "ctrl-c":
		return actInterrupt
	case m.page != nil:
		return m.pageKey(k)
	case m.editing:
		m.filterKey(k)
		return actNone
	}
	if m.inDiff && m.diffKey(k) || !m.inDiff && m.listKey(k) {
		return actNone
	}
	return m.anyKey(k)
}

// anyKey does what keys mean in both panes.
func (m *reviewModel) anyKey(k screen.Key) reviewAction {
	l := m.layout()
	at := m.current()
	switch k {
	case "q", "Q":
		return actQuit
	case "?":
		m.page = helpPage()
	case "enter":
		if m.inDiff || !m.unfold() {
			m.inDiff = !m.inDiff
		}
	case "tab", "shift-tab":
		m.inDiff = !m.inDiff
	case "=", "-":
		m.unfoldAll(k == "=")
	case "esc":
		switch {
		case m.inDiff:
			m.inDiff = false
		case m.filter != "":
			m.filter = ""
			m.refilter(at)
		}
	case "J":
		m.diffTop++
	case "K":
		m.diffTop--
	case "ctrl-d":
		m.diffTop += max(l.diff.height/2, 1)
	case "ctrl-u":
		m.diffTop -= max(l.diff.height/2, 1)
	case "right", "l":
		m.diffLeft += 8
	case "left", "h":
		m.diffLeft -= 8
	case "/":
		m.editing, m.old, m.from, m.inDiff = true, m.filter, at, false
		m.filter = ""
		m.refilter(at)
	case "n":
		m.jump(1)
	case "N":
		m.jump(-1)
	case "a":
		m.toggleAll()
	case "space":
		if at >= 0 {
			to := markCommit
			if m.markOf(at) == markCommit {
				to = markKeep
			}
			m.setMark(at, to)
		}
	case "d":
		if at >= 0 {
			m.setMark(at, markDrop)
		}
	case "u":
		if at >= 0 {
			m.setMark(at, markKeep)
		}
	case "c":
		m.confirm()
	}
	return actNone
}

// scroll moves a position as the keys for that say; all is more than there are lines.
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

func (m *reviewModel) listKey(k screen.Key) bool {
	return scroll(k, &m.cursor, m.layout().list.height, len(m.shown))
}

func (m *reviewModel) diffKey(k screen.Key) bool {
	all := 0
	if m.diff != nil {
		all = m.diff.count()
	}
	return scroll(k, &m.diffTop, m.layout().diff.height, all)
}

// filterKey edits the filter; the list follows.
func (m *reviewModel) filterKey(k screen.Key) {
	switch k {
	case "enter":
		m.editing = false
		return
	case "esc":
		m.editing, m.filter = false, m.old
	case "backspace":
		if m.filter == "" {
			m.editing = false
		}
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	case "ctrl-u":
		m.filter = ""
	case "space":
		m.filter += " "
	default:
		if utf8.RuneCountInString(string(k)) != 1 {
			return
		}
		m.filter += string(k)
	}
	m.refilter(m.from)
}

// paste takes what was pasted: no key is meant by it.
func (m *reviewModel) paste(text string) {
	if m.editing && m.busy == "" && m.page == nil {
		m.filter += strings.ToValidUTF8(text, "")
		m.refilter(m.from)
	}
}
