//go:build linux

package diff

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay"
)

// Options say how a diff is written. The zero value is plain text, byte for byte.
type Options struct {
	Colour   bool
	Escape   bool  // control characters in contents are escaped, except tabs
	maxBytes int64 // larger files are not shown; zero: textdiff.MaxBytes
	Several  bool  // the session has more than one root, so each change names its root

	Renames *renames // nil: unknown
}

// Write writes one change for people: a line with its kind, its path, and in words what lines of text do not show; then
// the lines that differ. For a deleted directory it does the same for everything that was in it.
func Write(w io.Writer, s *overlay.Session, c overlay.Change, o Options) error {
	d := diffWriter{w: bufio.NewWriterSize(w, 16<<10), s: s, o: o}
	if d.o.maxBytes == 0 {
		d.o.maxBytes = textdiff.MaxBytes
	}
	err := d.change(c)
	if _, moved := o.Renames.of(c); err == nil && !moved {
		for below, berr := range s.Below(c) {
			if err = berr; err == nil && !o.Renames.Inside(below) {
				err = d.change(below)
			}
			if err == nil {
				err = d.w.Flush() // nobody may want the rest
			}
			if err != nil {
				break
			}
		}
	}
	if ferr := d.w.Flush(); err == nil {
		err = ferr
	}
	return err
}

type diffWriter struct {
	w *bufio.Writer
	s *overlay.Session
	o Options
}

// The colours of a diff, the same as git's.
const (
	Bold   = "\x1b[1m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Cyan   = "\x1b[36m"
	Normal = "\x1b[m"
)

// line writes a line in a colour; text has no newline.
func (d *diffWriter) line(colour string, text []byte) {
	if d.o.Escape {
		text = console.EscapeControls(text)
	}
	if d.o.Colour && colour != "" {
		d.w.WriteString(colour)
		d.w.Write(text)
		d.w.WriteString(Normal)
	} else {
		d.w.Write(text)
	}
	d.w.WriteByte('\n')
}

func (d *diffWriter) change(c overlay.Change) error {
	words, err := d.words(c)
	old, new := sides(c)
	before := c
	if m, ok := d.o.Renames.of(c); ok && c.Kind == overlay.Deleted {
		words = append(words, "renamed to "+escape.Quote(m.To))
		old = fs.ModeIrregular // the new path shows the contents
	} else if ok {
		words = append(words, "renamed from "+escape.Quote(m.From))
		before.Path, before.OldSize = m.From, c.Size
		if old = new; m.Similarity == 100 {
			old, new = fs.ModeIrregular, fs.ModeIrregular
		} else {
			words = append(words, fmt.Sprintf("%d %% equal", m.Similarity))
		}
	}
	var hunks func()
	switch {
	case err != nil:
	case old.IsRegular() || new.IsRegular():
		var note string
		if note, hunks, err = d.contents(before, c, old, new); note != "" {
			words = append(words, note)
		}
	}
	if err != nil {
		words = append(words, "cannot be compared")
	}
	head := c.String()
	if d.o.Several {
		head = head[:2] + escape.Quote(c.Root) + ": " + head[2:]
	}
	if len(words) > 0 {
		head += " (" + strings.Join(words, ", ") + ")"
	}
	d.line(Bold, []byte(head))
	if err != nil {
		return err
	}
	if hunks != nil {
		hunks()
	}
	for _, v := range [...]struct {
		mode   fs.FileMode
		side   overlay.Side
		colour string
		sign   string
	}{{old, overlay.Before, Red, "-"}, {new, overlay.After, Green, "+"}} {
		if !isLink(v.mode) || c.Kind == overlay.Modified && c.Aspects != 0 && c.Aspects&overlay.Content == 0 {
			continue
		}
		text, err := d.s.Link(c, v.side)
		if err != nil {
			return err
		}
		d.line(v.colour, []byte(v.sign+"→ "+escape.Quote(text)))
	}
	return nil
}

// sides returns the modes of both versions; fs.ModeIrregular: there is none.
func sides(c overlay.Change) (old, new fs.FileMode) {
	old, new = c.OldMode, c.Mode
	if c.Kind == overlay.Added {
		old = fs.ModeIrregular
	}
	if c.Kind == overlay.Deleted {
		new = fs.ModeIrregular
	}
	return old, new
}

func isLink(m fs.FileMode) bool { return m.Type() == fs.ModeSymlink }

// contents compares two versions, at least one of which is a file; hunks writes the lines that differ. The old version
// is that of before, which is c except for a rename.
func (d *diffWriter) contents(before, c overlay.Change, old, new fs.FileMode) (note string, hunks func(), err error) {
	if c.Kind == overlay.Modified && c.Aspects != 0 && c.Aspects&overlay.Content == 0 {
		return "", nil, nil
	}
	var oldSize, newSize int64
	if old.IsRegular() {
		oldSize = before.OldSize
	}
	if new.IsRegular() {
		newSize = c.Size
	}
	sizes := fmt.Sprintf("%d → %d bytes", oldSize, newSize)
	switch {
	case !old.IsRegular():
		sizes = console.Plural(int(newSize), "byte")
	case !new.IsRegular():
		sizes = console.Plural(int(oldSize), "byte")
	}
	if max(oldSize, newSize) > d.o.maxBytes {
		return "too large to be shown, " + sizes, nil, nil
	}
	if oldSize == 0 && newSize == 0 {
		return "empty", nil, nil
	}
	a, err := d.read(before, overlay.Before, old)
	if err != nil {
		return "", nil, err
	}
	b, err := d.read(c, overlay.After, new)
	if err != nil {
		return "", nil, err
	}
	switch {
	case !textdiff.IsText(a) || !textdiff.IsText(b):
		return "binary, " + sizes, nil, nil
	case !textdiff.Comparable(a, b):
		return "too large to be shown, " + sizes, nil, nil
	case bytes.Equal(a, b):
		return "", nil, nil
	}
	from, to := textdiff.Quote("a/"+before.Path), textdiff.Quote("b/"+c.Path)
	if !old.IsRegular() {
		from = "/dev/null"
	}
	if !new.IsRegular() {
		to = "/dev/null"
	}
	return "", func() {
		d.line(Bold, []byte("--- "+from))
		d.line(Bold, []byte("+++ "+to))
		for h := range textdiff.Hunks(a, b) {
			d.hunk(h)
		}
	}, nil
}

func (d *diffWriter) hunk(h textdiff.Hunk) {
	d.line(Cyan, []byte(h.Header()))
	var buf []byte
	for _, l := range h.Lines {
		colour := ""
		switch l.Kind {
		case '-':
			colour = Red
		case '+':
			colour = Green
		}
		text, whole := bytes.CutSuffix(l.Text, []byte{'\n'})
		buf = append(append(buf[:0], l.Kind), text...)
		d.line(colour, buf)
		if !whole {
			d.line("", []byte(textdiff.NoNewline))
		}
	}
}

// read returns one version of a file. Nil: that version is no file.
func (d *diffWriter) read(c overlay.Change, side overlay.Side, mode fs.FileMode) ([]byte, error) {
	if !mode.IsRegular() {
		return nil, nil
	}
	return readVersion(d.s, c, side, d.o.maxBytes)
}

// readVersion returns one version of a file. It is an error if the file has more than most bytes.
func readVersion(s *overlay.Session, c overlay.Change, side overlay.Side, most int64) ([]byte, error) {
	f, err := s.File(c, side)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := c.Size
	if side == overlay.Before {
		size = c.OldSize
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(size, most)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > most {
		return nil, &overlay.Error{Op: "read", Path: f.Name(), Err: overlay.ErrMoved}
	}
	return buf.Bytes(), nil
}
