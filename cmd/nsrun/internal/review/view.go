//go:build linux

package review

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// view draws the model: as many lines as the window is high.
func (m *model) view() []screen.Line {
	lines := make([]screen.Line, max(m.height, 1))
	if m.page != nil {
		m.viewPage(lines)
		return lines
	}
	l := m.layout()
	if l.list.y > 0 {
		lines[0] = m.titleLine()
		lines[len(lines)-1] = m.lastLine()
	}
	put := func(a area, y int, line screen.Line) {
		line = clip(line, a.width)
		if a.x > 0 && len(line) > 0 {
			line[0].At = a.x
		}
		lines[y] = append(lines[y], line...)
	}
	for i := range l.list.height {
		if at := m.top + i; at < len(m.shown) {
			put(l.list, l.list.y+i, m.rowLine(at, l.list.width))
		}
	}
	if l.head.height > 0 {
		put(l.head, l.head.y, m.headLine(l.head.width))
	}
	for i := range l.diff.height {
		put(l.diff, l.diff.y+i, m.diffLine(i, l.diff.width))
	}
	return lines
}

// clip cuts a line to a width.
func clip(line screen.Line, width int) (cut screen.Line) {
	for _, s := range line {
		fit := screen.Fit(s.Text, s.Style, 0, width, -1)
		for _, f := range fit {
			width -= screen.Width(f.Text)
		}
		cut = append(cut, fit...)
	}
	return cut
}

// reverseLine returns a line in reverse video over the whole width.
func reverseLine(text string, width int) screen.Line {
	text += strings.Repeat(" ", max(width-screen.Width(text), 0))
	return screen.Fit(text, screen.Reverse, 0, width, -1)
}

func (m *model) titleLine() screen.Line {
	commit, drop, keep := m.counts()
	text := fmt.Sprintf("%s: commit %d, drop %d, keep %d", m.id, commit, drop, keep)
	if m.filter != "" && !m.editing {
		text += "  /" + m.filter
	}
	return reverseLine(text, m.width)
}

func (m *model) lastLine() screen.Line {
	switch {
	case m.busy != "":
		return screen.Fit(m.busy+"   ctrl-C stops it", screen.Bold, 0, m.width, -1)
	case m.editing:
		line := screen.FitEnd("/"+m.filter, 0, max(m.width-1, 0))
		return append(line, screen.Span{Text: " ", Style: screen.Reverse})
	case m.message != "":
		return screen.Fit(m.message, screen.Bold, 0, m.width, -1)
	}
	return screen.Fit("space commit  d drop  u keep  a all  c do it  / filter  tab diff  ? help  q quit", screen.Dim, 0, m.width, -1)
}

var markTexts = [...]string{markKeep: "[ ] ", markCommit: "[+] ", markDrop: "[-] ", markMixed: "[~] "}

// kindStyle returns the style of a kind's letter.
func kindStyle(k overlay.Kind) screen.Style {
	switch k {
	case overlay.Added:
		return screen.Green
	case overlay.Deleted:
		return screen.Red
	case overlay.TypeChanged:
		return screen.Cyan
	}
	return screen.Yellow
}

// note returns the text after a row's name.
func (r *row) note() string {
	var list []string
	if r.Special != "" {
		list = append(list, r.Special)
	}
	if r.Runs != "" {
		list = append(list, r.Later())
	}
	if r.Below > 0 {
		list = append(list, fmt.Sprintf("and %d below", r.Below))
	}
	if r.Kind == overlay.Modified && r.Aspects&overlay.Content == 0 {
		for _, a := range [...]struct {
			is   overlay.Aspect
			name string
		}{{overlay.Mode, "mode"}, {overlay.Owner, "owner"}, {overlay.Attributes, "attributes"}} {
			if r.Aspects&a.is != 0 {
				list = append(list, a.name)
			}
		}
	}
	if list == nil {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func (m *model) rowLine(at, width int) screen.Line {
	i := m.shown[at]
	r := &m.rows[i]
	var all screen.Style
	switch {
	case at == m.cursor && !m.inDiff:
		all = screen.Reverse
	case at == m.cursor:
		all = screen.Bold
	case !r.match:
		all = screen.Dim
	}
	got := m.markOf(i)
	markStyle := all
	switch got {
	case markCommit:
		markStyle |= screen.Green
	case markDrop:
		markStyle |= screen.Red
	}
	line := screen.Line{
		{Text: markTexts[got], Style: markStyle},
		{Text: string(r.Kind.Letter()) + " ", Style: all | kindStyle(r.Kind)},
	}
	const before = 6
	if width <= before {
		return line
	}
	note := r.note()
	if r.group && !r.open && m.filter == "" {
		note = fmt.Sprintf(" (and %d below)", r.end-i-1) + note
	}
	room := width - before
	name := screen.FitEnd(r.name, all, max(room-len(note), min(room, 12)))
	line = append(line, name...)
	for _, s := range name {
		room -= screen.Width(s.Text)
	}
	if note != "" {
		fit := screen.Fit(note, all, 0, room, -1)
		line = append(line, fit...)
		for _, s := range fit {
			room -= screen.Width(s.Text)
		}
	}
	if at == m.cursor && room > 0 {
		line = append(line, screen.Span{Text: strings.Repeat(" ", room), Style: all})
	}
	return line
}

// headLine names the change, and says which part of its diff is shown.
func (m *model) headLine(width int) screen.Line {
	i := m.current()
	if i < 0 {
		return reverseLine("", width)
	}
	where := ""
	if m.diff != nil && m.diffOf == i && m.diff.count() > 0 {
		where = fmt.Sprintf(" %d/%d", m.diffTop+1, m.diff.count())
		if m.diffLeft > 0 {
			where += fmt.Sprintf(" +%d", m.diffLeft)
		}
	}
	style := screen.Bold
	if m.inDiff {
		style = screen.Reverse
	}
	room := max(width-len(where)-4, 0)
	line := append(screen.Line{{Text: "── ", Style: style}}, screen.FitEnd(m.rows[i].name, style, room)...)
	return append(line, screen.Span{Text: where, Style: style})
}

func (m *model) diffLine(n, width int) screen.Line {
	if m.current() < 0 || m.diff == nil || m.diffOf != m.current() {
		return nil
	}
	n += m.diffTop
	if n >= m.diff.count() {
		return nil
	}
	text, style := m.diff.line(n)
	return screen.Fit(text, style, m.diffLeft, width, 1)
}

func (m *model) viewPage(lines []screen.Line) {
	p := m.page
	if m.height < 3 {
		lines[len(lines)-1] = screen.Fit(p.title+" "+p.keys, screen.Bold, 0, m.width, -1)
		return
	}
	lines[0] = reverseLine(p.title, m.width)
	for i := range m.pageHeight() {
		if at := p.top + i; at < len(p.lines) {
			lines[1+i] = screen.Fit(p.lines[at].text, p.lines[at].style, 0, m.width, -1)
		}
	}
	keys := p.keys
	if len(p.lines) > m.pageHeight() {
		keys += "   j k scroll"
	}
	lines[len(lines)-1] = screen.Fit(keys, screen.Bold, 0, m.width, -1)
}
