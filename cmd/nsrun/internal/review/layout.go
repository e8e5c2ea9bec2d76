//go:build linux

package review

// area is a part of the window.
type area struct{ x, y, width, height int }

// panes says where things are. A pane without height is not shown.
type panes struct {
	list, diff area
	head       area // the line above the diff that names the change
}

const (
	sideBySide = 100 // least columns for list and diff side by side
	leastBody  = 7   // least lines for one above the other
)

// layout divides the window: a title, list and diff, a line of help.
func (m *model) layout() (l panes) {
	w, y, h := m.width, 1, m.height-2
	switch {
	case m.height < 4: // no title and no help
		y, h = 0, max(m.height, 1)
		fallthrough
	case h < leastBody && w < sideBySide:
		if m.inDiff {
			l.diff = area{0, y, w, h}
		} else {
			l.list = area{0, y, w, h}
		}
	case w >= sideBySide:
		left := min(w*2/5, 70)
		l.list = area{0, y, left, h}
		l.head = area{left + 1, y, w - left - 1, 1}
		l.diff = area{left + 1, y + 1, w - left - 1, h - 1}
	default:
		n := max(min(h*2/5, len(m.shown)), 3)
		l.list = area{0, y, w, n}
		l.head = area{0, y + n, w, 1}
		l.diff = area{0, y + n + 1, w, h - n - 1}
	}
	return l
}

// resize sets the size of the window.
func (m *model) resize(width, height int) {
	m.width, m.height = width, height
	m.settle()
}

func (m *model) setDiff(row int, d *diffText) {
	if row != m.diffOf {
		m.diffTop, m.diffLeft = 0, 0
	}
	m.diff, m.diffOf = d, row
	m.settle()
}

// settle puts all positions back into their bounds.
func (m *model) settle() {
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

// maxLeft is how far a diff can be scrolled to the right, in columns.
const maxLeft = 1 << 16

// bound returns n, but at least 0 and at most limit.
func bound(n, limit int) int { return max(0, min(n, limit)) }

func (m *model) pageHeight() int { return max(m.height-2, 1) }
