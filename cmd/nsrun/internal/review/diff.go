//go:build linux

package review

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

const (
	diffMost      = 16 << 20 // bytes of a diff that are shown
	diffMostLines = 200_000
)

// diffText is a diff, or the beginning of one, divided into lines.
type diffText struct {
	data   []byte
	starts []int          // of the lines, in data
	styles []screen.Style // of the lines
	inHunk bool           // the next line belongs to a hunk
}

// errDiffEnd stops the writer of a diff.
var errDiffEnd = errors.New("no more of this diff is wanted")

// diffBuffer takes a diff until it is full.
type diffBuffer struct {
	data  []byte
	lines int
	stop  *atomic.Bool // nobody wants the rest
	full  bool
}

func (w *diffBuffer) Write(p []byte) (int, error) {
	if w.stop.Load() || w.full {
		return 0, errDiffEnd
	}
	n := min(len(p), diffMost-len(w.data))
	w.data = append(w.data, p[:n]...)
	w.lines += bytes.Count(p[:n], []byte{'\n'})
	if n < len(p) || w.lines >= diffMostLines {
		w.full = true
		return n, errDiffEnd
	}
	return n, nil
}

// makeDiff makes the diff of a change, or its beginning if the diff is too long.
func makeDiff(s *overlay.Session, c overlay.Change, stop *atomic.Bool) *diffText {
	d := &diffText{}
	w := &diffBuffer{stop: stop}
	err := diff.Write(w, s, c, diff.Options{})
	d.add(w.data)
	switch {
	case w.full:
		d.note("the rest is not shown here: nsrun diff has all of it")
	case err != nil && !errors.Is(err, errDiffEnd):
		d.note(err.Error())
	case d.count() == 0:
		d.note("there is nothing to compare")
	}
	return d
}

// note adds a line of our own.
func (d *diffText) note(text string) {
	d.starts = append(d.starts, len(d.data))
	d.data = append(append(d.data, text...), '\n')
	d.styles = append(d.styles, screen.Bold)
}

// add divides data into lines. The style of a line depends on the lines before it, because a removed line may look like
// a header.
func (d *diffText) add(data []byte) {
	d.data = data
	for at := 0; at < len(data); {
		line := data[at:]
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end]
		}
		d.starts = append(d.starts, at)
		d.styles = append(d.styles, d.styleOf(line))
		at += len(line) + 1
	}
}

func (d *diffText) styleOf(line []byte) screen.Style {
	c := byte(' ')
	if len(line) > 0 {
		c = line[0]
	}
	switch {
	case c == '@':
		d.inHunk = true
		return screen.Cyan
	case d.inHunk && c == '+':
		return screen.Green
	case d.inHunk && c == '-':
		return screen.Red
	case d.inHunk && (c == ' ' || c == '\\'):
		return 0
	}
	d.inHunk = false
	switch { // of a symbolic link
	case bytes.HasPrefix(line, []byte("+→")):
		return screen.Green
	case bytes.HasPrefix(line, []byte("-→")):
		return screen.Red
	}
	return screen.Bold
}

func (d *diffText) count() int { return len(d.starts) }

// line returns a line without its end, and its style.
func (d *diffText) line(n int) (string, screen.Style) {
	end := len(d.data)
	if n+1 < len(d.starts) {
		end = d.starts[n+1]
	}
	return strings.TrimSuffix(string(d.data[d.starts[n]:end]), "\n"), d.styles[n]
}
