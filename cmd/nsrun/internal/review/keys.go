//go:build linux

package review

import (
	"strings"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/screen"
)

// key handles a key.
func (m *model) key(k screen.Key) action {
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

// anyKey handles a key that both panes have.
func (m *model) anyKey(k screen.Key) action {
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

func (m *model) listKey(k screen.Key) bool {
	return scroll(k, &m.cursor, m.layout().list.height, len(m.shown))
}

func (m *model) diffKey(k screen.Key) bool {
	all := 0
	if m.diff != nil {
		all = m.diff.count()
	}
	return scroll(k, &m.diffTop, m.layout().diff.height, all)
}

// filterKey handles a key while the filter is edited.
func (m *model) filterKey(k screen.Key) {
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

// paste handles pasted text, which is never taken for keys.
func (m *model) paste(text string) {
	if m.editing && m.busy == "" && m.page == nil {
		m.filter += strings.ToValidUTF8(text, "")
		m.refilter(m.from)
	}
}
