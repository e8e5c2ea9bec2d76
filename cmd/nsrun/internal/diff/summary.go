//go:build linux

package diff

import (
	"bufio"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay"
)

// inSummary yields the deletions, or all other changes, but no renames.
func inSummary(changes []overlay.Change, deletions bool, o Options) iter.Seq[overlay.Change] {
	return func(yield func(overlay.Change) bool) {
		for _, c := range changes {
			if _, moved := o.Renames.of(c); moved || o.Renames.Inside(c) {
				continue
			}
			if (c.Kind == overlay.Deleted) == deletions && !yield(c) {
				return
			}
		}
	}
}

// summaryName returns the path of a change as git quotes it. With several roots it is absolute.
func summaryName(c overlay.Change, o Options) string {
	name := c.Path
	if o.Several {
		name = strings.TrimSuffix(c.Root+"/"+c.Path, "/.")
	}
	if c.Mode.IsDir() {
		name += "/"
	}
	return textdiff.Quote(name)
}

// movedNames returns the two paths of a rename, as summaryName does.
func movedNames(m overlay.Rename, o Options) (from, to string) {
	c := overlay.Change{Root: m.Root}
	if m.Directory {
		c.Mode = fs.ModeDir
	}
	c.Path = m.From
	from = summaryName(c, o)
	c.Path = m.To
	return from, summaryName(c, o)
}

// WriteNameStatus writes a line for each change: letter, tab, path. Renames come after the deletions, with both paths.
func WriteNameStatus(w *bufio.Writer, changes []overlay.Change, moved []overlay.Rename, o Options) {
	for c := range inSummary(changes, true, o) {
		writeStatus(w, c, o)
	}
	for _, m := range moved {
		from, to := movedNames(m, o)
		fmt.Fprintf(w, "R%03d\t%s\t%s\n", m.Similarity, from, to)
	}
	for c := range inSummary(changes, false, o) {
		writeStatus(w, c, o)
	}
}

func writeStatus(w *bufio.Writer, c overlay.Change, o Options) {
	fmt.Fprintf(w, "%c\t%s", c.Kind.Letter(), summaryName(c, o))
	if c.Runs != "" {
		w.WriteString("\t" + c.Later())
	}
	w.WriteByte('\n')
}

// WriteStat writes how many lines changed in each file, and in words what else differs.
func WriteStat(w *bufio.Writer, s *overlay.Session, changes []overlay.Change, moved []overlay.Rename, o Options) error {
	d := diffWriter{w: w, s: s, o: o}
	d.o.maxBytes = textdiff.MaxBytes
	var stats []textdiff.Stat
	add := func(c overlay.Change) error {
		st, show, err := d.stat(c)
		if show {
			stats = append(stats, st)
		}
		return err
	}
	for c := range inSummary(changes, true, o) {
		if err := add(c); err != nil {
			return err
		}
		for below, err := range s.Below(c) {
			if _, moved := o.Renames.of(below); moved || o.Renames.Inside(below) {
				continue
			}
			if err == nil {
				err = add(below)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, m := range moved {
		st, err := d.movedStat(m)
		if err != nil {
			return err
		}
		stats = append(stats, st)
	}
	for c := range inSummary(changes, false, o) {
		if err := add(c); err != nil {
			return err
		}
		if c.Kind != overlay.TypeChanged {
			continue
		}
		for below, err := range s.Below(c) {
			if err == nil {
				err = add(below)
			}
			if err != nil {
				return err
			}
		}
	}
	width := 80
	if ws, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		width = int(ws.Col)
	}
	var colours textdiff.Colours
	if o.Colour {
		colours = textdiff.Colours{Added: Green, Deleted: Red, Reset: Normal}
	}
	return textdiff.WriteStats(w, stats, width, colours)
}

// movedStat counts the changed lines of a renamed file.
func (d *diffWriter) movedStat(m overlay.Rename) (st textdiff.Stat, err error) {
	from, to := movedNames(m, d.o)
	st.Name = from + " => " + to
	if m.Directory {
		st.Note = "renamed"
	}
	if m.Similarity == 100 {
		return st, nil
	}
	a, err := d.read(overlay.Change{Root: m.Root, Path: m.From}, overlay.Before, 0)
	if err != nil {
		return st, err
	}
	b, err := d.read(overlay.Change{Root: m.Root, Path: m.To}, overlay.After, 0)
	if err != nil {
		return st, err
	}
	st.Added, st.Deleted = textdiff.Count(a, b)
	return st, nil
}

// stat counts the changed lines of one change. It does not show a directory if only its contents differ.
func (d *diffWriter) stat(c overlay.Change) (st textdiff.Stat, show bool, err error) {
	st.Name = summaryName(c, d.o)
	if c.Runs != "" {
		st.Name += " (" + c.Later() + ")"
	}
	words, err := d.words(c)
	if err != nil {
		return st, false, err
	}
	old, new := sides(c)
	switch {
	case c.Kind == overlay.Deleted && c.Mode.IsDir() && len(words) > 0:
		st.Note = "deleted, " + strings.Join(words, ", ")
		return st, true, nil
	case c.Mode.IsDir() && len(words) == 0:
		return st, false, nil
	case !old.IsRegular() && !new.IsRegular() && !isLink(old) && !isLink(new):
		st.Note = strings.Join(words, ", ")
		if c.Kind == overlay.Deleted {
			st.Note = "deleted " + st.Note
		}
		return st, true, nil
	case c.Kind == overlay.Modified && c.Aspects != 0 && c.Aspects&overlay.Content == 0:
		st.Note = strings.Join(words, ", ")
		return st, true, nil
	}
	var a, b []byte
	for _, v := range [...]struct {
		mode fs.FileMode
		side overlay.Side
		size int64
		to   *[]byte
	}{{old, overlay.Before, c.OldSize, &a}, {new, overlay.After, c.Size, &b}} {
		switch {
		case v.mode.IsRegular() && v.size > d.o.maxBytes:
			st.Note = textdiff.BinaryNote(c.OldSize, c.Size)
			return st, true, nil
		case v.mode.IsRegular():
			*v.to, err = d.read(c, v.side, v.mode)
		case isLink(v.mode):
			var text string
			text, err = d.s.Link(c, v.side)
			*v.to = []byte(text)
		}
		if err != nil {
			return st, false, err
		}
	}
	if !textdiff.Comparable(a, b) {
		st.Note = textdiff.BinaryNote(int64(len(a)), int64(len(b)))
		return st, true, nil
	}
	st.Added, st.Deleted = textdiff.Count(a, b)
	return st, true, nil
}
