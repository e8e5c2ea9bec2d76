//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay"
)

var diffVerb = usage.Verb{
	Name: "diff", Args: "[flags] [SESSION] [PATH…]",
	Short: "show what a session changed in files",
	Long: `Of everything, or of what is at and below the paths, which are absolute or
relative to the project; they may be patterns (*, ?, [a-z], and ** for any
number of directories). Deletions come first in --stat and --name-status; what
was moved follows them (R, and how many percent are equal).

nsrun diff --patch | git apply, at the top of another copy of the project, makes
there what the session made here: contents, binary ones too, symbolic links and
whether files can be executed. (Below the top of a git work tree git apply needs
--directory.) What git has no words for (empty directories, named pipes, other
modes, owners, attributes) is said on standard error. Times are not in the patch.`,
	Flags: func(fs *flag.FlagSet) { new(diffFlags).define(fs) },
}

// diffFlags are the flags of nsrun diff.
type diffFlags struct {
	colour                  string
	stat, nameStatus, patch bool
}

func (f *diffFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.colour, "color", "auto", "use colours: `auto|always|never`")
	fs.BoolVar(&f.nameStatus, "name-status", false, "print a letter and a path for each change")
	fs.BoolVar(&f.patch, "patch", false, "print a patch for git apply")
	fs.BoolVar(&f.stat, "stat", false, "print how many lines were changed in which file")
}

// useColour decides for standard output.
func (f *diffFlags) useColour(terminal bool) (bool, error) {
	switch f.colour {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", nil
	}
	return false, usage.Errorf("diff", "--color is auto, always or never")
}

func diff(args []string) int {
	var f diffFlags
	rest, status, ok := diffVerb.Parse(args, f.define)
	if !ok {
		return status
	}
	terminal := console.IsTerminal(os.Stdout)
	colour, err := f.useColour(terminal)
	if err != nil {
		return console.Fail(err)
	}
	if f.stat && f.nameStatus || f.stat && f.patch || f.nameStatus && f.patch {
		return console.Fail(usage.Errorf("diff", "--stat, --name-status and --patch exclude each other"))
	}
	id, paths := sessionArg(rest)
	if id == "" {
		return console.Fail(errNoneHere)
	}
	s, changes, err := openChanges(id)
	if err != nil {
		return console.Fail(err)
	}
	defer s.Close()
	if len(paths) > 0 {
		if changes, err = s.Choose(changes, paths); err != nil {
			return console.Fail(err)
		}
	}
	out := console.OpenOutput()
	o := diffOptions{colour: colour, escape: terminal, several: len(s.Roots()) > 1}
	var list []overlay.Rename
	if !f.patch {
		if list, err = s.Renames(changes); err != nil {
			return console.Fail(err)
		}
		o.renames = indexRenames(list)
	}
	switch {
	case f.patch:
		err = writePatch(out.Shown(), s, changes)
	case f.nameStatus:
		writeNameStatus(out.Writer, changes, list, o)
	case f.stat:
		err = writeStat(out.Writer, s, changes, list, o)
	default:
		for _, c := range changes {
			if o.renames.inside(c) {
				continue
			}
			if err := writeDiff(out, s, c, o); err != nil {
				if out.Flush() != nil {
					break
				}
				if err = console.Unwanted(err); err == nil {
					break
				}
				status = console.Fail(err)
			}
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err = console.Unwanted(err); err != nil {
		return console.Fail(err)
	}
	return status
}

// openChanges opens a session to look at it. It is locked only where files must be made
// readable.
func openChanges(id string) (*overlay.Session, []overlay.Change, error) {
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return nil, nil, err
	}
	changes, err := collect(s)
	closed := func(c overlay.Change) bool {
		return c.Kind != overlay.Deleted && c.Mode.IsRegular() && c.Mode.Perm()&0o400 == 0
	}
	if os.Geteuid() != 0 && (errors.Is(err, fs.ErrPermission) || slices.ContainsFunc(changes, closed)) {
		if locked, lerr := overlay.Open("", s.ID()); lerr == nil {
			_ = s.Close()
			s = locked
			changes, err = collect(s)
		}
	}
	if err != nil {
		_ = s.Close()
		return nil, nil, err
	}
	return s, changes, nil
}

func collect(s *overlay.Session) (changes []overlay.Change, err error) {
	for c, err := range s.Changes() {
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// diffOptions say how writeDiff writes. The zero value is plain text, byte for byte.
type diffOptions struct {
	colour   bool
	escape   bool  // control characters in contents are escaped, but tabs
	maxBytes int64 // larger files are not shown. Zero: textdiff.MaxBytes
	several  bool  // the session has more than one root: it is named

	renames *renames // what was moved; nil: that is not known
}

// renames are what was moved, by where it was and by where it is. What is in a directory
// that was moved is equal, and not among them.
type renames struct{ from, to map[renamed]overlay.Rename }

type renamed struct{ root, path string }

func indexRenames(list []overlay.Rename) *renames {
	r := &renames{map[renamed]overlay.Rename{}, map[renamed]overlay.Rename{}}
	for _, m := range list {
		r.from[renamed{m.Root, m.From}] = m
		r.to[renamed{m.Root, m.To}] = m
	}
	return r
}

// of returns the rename that c is one end of.
func (r *renames) of(c overlay.Change) (m overlay.Rename, ok bool) {
	if r == nil {
		return m, false
	}
	switch c.Kind {
	case overlay.Deleted:
		m, ok = r.from[renamed{c.Root, c.Path}]
	case overlay.Added:
		m, ok = r.to[renamed{c.Root, c.Path}]
	}
	return m, ok
}

// inside reports whether c is in a directory that was moved.
func (r *renames) inside(c overlay.Change) bool {
	if r == nil || len(r.to) == 0 {
		return false
	}
	for c.Path = path.Dir(c.Path); c.Path != "."; c.Path = path.Dir(c.Path) {
		if _, ok := r.of(c); ok {
			return true
		}
	}
	return false
}

// writeDiff writes what is different about one change, for people: a line with its
// kind, its path, and in words all that no text shows; then the lines that differ. Of a
// deleted directory everything that was in it follows.
func writeDiff(w io.Writer, s *overlay.Session, c overlay.Change, o diffOptions) error {
	d := diffWriter{w: bufio.NewWriterSize(w, 16<<10), s: s, o: o}
	if d.o.maxBytes == 0 {
		d.o.maxBytes = textdiff.MaxBytes
	}
	err := d.change(c)
	if _, moved := o.renames.of(c); err == nil && !moved {
		for below, berr := range s.Below(c) {
			if err = berr; err == nil && !o.renames.inside(below) {
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
	o diffOptions
}

// The colours of a diff, as git has them.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	cyan   = "\x1b[36m"
	normal = "\x1b[m"
)

// line writes a line in a colour; text has no newline.
func (d *diffWriter) line(colour string, text []byte) {
	if d.o.escape {
		text = console.EscapeControls(text)
	}
	if d.o.colour && colour != "" {
		d.w.WriteString(colour)
		d.w.Write(text)
		d.w.WriteString(normal)
	} else {
		d.w.Write(text)
	}
	d.w.WriteByte('\n')
}

// change writes one object.
func (d *diffWriter) change(c overlay.Change) error {
	words, err := d.words(c)
	old, new := sides(c)
	before := c
	if m, ok := d.o.renames.of(c); ok && c.Kind == overlay.Deleted {
		words = append(words, "renamed to "+escape.Quote(m.To))
		old = fs.ModeIrregular // what became of it stands there
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
	if d.o.several {
		head = head[:2] + escape.Quote(c.Root) + ": " + head[2:]
	}
	if len(words) > 0 {
		head += " (" + strings.Join(words, ", ") + ")"
	}
	d.line(bold, []byte(head))
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
	}{{old, overlay.Before, red, "-"}, {new, overlay.After, green, "+"}} {
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

// sides are the modes of both versions; zero and irregular where there is none.
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

// typeName is what kind of object a mode is.
func typeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "named pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device node"
}

// words says what is different, but for contents.
func (d *diffWriter) words(c overlay.Change) (list []string, err error) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch c.Kind {
	case overlay.TypeChanged:
		add("%s → %s", typeName(c.OldMode), typeName(c.Mode))
	default:
		if m := c.Mode.Type(); m != 0 && m != fs.ModeDir {
			add("%s", typeName(c.Mode))
		}
	}
	switch {
	case isLink(c.Mode):
	case c.Kind == overlay.Added || c.Kind == overlay.TypeChanged:
		if c.Mode.IsRegular() && jsonform.Octal(c.Mode) != "0644" || c.Mode.IsDir() && jsonform.Octal(c.Mode) != "0755" {
			add("mode %s", jsonform.Octal(c.Mode))
		}
	case c.Kind == overlay.Modified && jsonform.Octal(c.Mode) != jsonform.Octal(c.OldMode):
		add("mode %s → %s", jsonform.Octal(c.OldMode), jsonform.Octal(c.Mode))
	}
	if c.Below > 0 {
		add("%s in it", console.Plural(c.Below, "object"))
	} else if c.Mode.IsDir() && c.Kind != overlay.Modified {
		side := overlay.After
		if c.Kind == overlay.Deleted {
			side = overlay.Before
		}
		names, err := d.s.Names(c, side)
		if err != nil {
			return list, err
		}
		if len(names) == 0 {
			add("empty")
		}
	}
	if c.Special != "" {
		add("%s", c.Special)
	}
	if c.Runs != "" {
		add("runs later: %s", c.Runs)
	}
	if c.Links > 1 {
		add("%s by hard links", console.Plural(int(c.Links), "name"))
	}
	if c.Sparse {
		add("has holes")
	}
	if c.Kind == overlay.Modified && c.Aspects&(overlay.Owner|overlay.Attributes) != 0 {
		before, err := d.s.Access(c, overlay.Before)
		if err != nil {
			return list, err
		}
		after, err := d.s.Access(c, overlay.After)
		if err != nil {
			return list, err
		}
		if before.UID != after.UID || before.GID != after.GID {
			add("owner %d:%d → %d:%d", before.UID, before.GID, after.UID, after.GID)
		}
		list = append(list, attributeWords(before.Attributes, after.Attributes)...)
	}
	return list, nil
}

// attributeWords says which extended attributes differ.
func attributeWords(before, after map[string]string) (list []string) {
	all := maps.Clone(after)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, hadIt := before[name]
		new, hasIt := after[name]
		switch {
		case !hadIt:
			list = append(list, "attribute "+escape.Quote(name)+" added")
		case !hasIt:
			list = append(list, "attribute "+escape.Quote(name)+" removed")
		case old != new:
			list = append(list, "attribute "+escape.Quote(name)+" changed")
		}
	}
	return list
}

// contents compares two versions of which one at least is a file; hunks writes what
// differs. The old version is that of before, which is c unless something was moved.
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
		d.line(bold, []byte("--- "+from))
		d.line(bold, []byte("+++ "+to))
		for h := range textdiff.Hunks(a, b) {
			d.hunk(h)
		}
	}, nil
}

func (d *diffWriter) hunk(h textdiff.Hunk) {
	d.line(cyan, []byte(h.Header()))
	var buf []byte
	for _, l := range h.Lines {
		colour := ""
		switch l.Kind {
		case '-':
			colour = red
		case '+':
			colour = green
		}
		text, whole := bytes.CutSuffix(l.Text, []byte{'\n'})
		buf = append(append(buf[:0], l.Kind), text...)
		d.line(colour, buf)
		if !whole {
			d.line("", []byte(textdiff.NoNewline))
		}
	}
}

// read returns one version of a file, nothing if there is no file on that side.
func (d *diffWriter) read(c overlay.Change, side overlay.Side, mode fs.FileMode) ([]byte, error) {
	if !mode.IsRegular() {
		return nil, nil
	}
	return readVersion(d.s, c, side, d.o.maxBytes)
}

// readVersion returns one version of a file, which is an error if it has grown larger
// than most.
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

// inSummary yields the deletions, or all other changes, but not what was moved.
func inSummary(changes []overlay.Change, deletions bool, o diffOptions) iter.Seq[overlay.Change] {
	return func(yield func(overlay.Change) bool) {
		for _, c := range changes {
			if _, moved := o.renames.of(c); moved || o.renames.inside(c) {
				continue
			}
			if (c.Kind == overlay.Deleted) == deletions && !yield(c) {
				return
			}
		}
	}
}

// summaryName is a path in a summary, as git quotes it. It is absolute where there are
// several roots.
func summaryName(c overlay.Change, o diffOptions) string {
	name := c.Path
	if o.several {
		name = strings.TrimSuffix(c.Root+"/"+c.Path, "/.")
	}
	if c.Mode.IsDir() {
		name += "/"
	}
	return textdiff.Quote(name)
}

// movedNames are the two names of something that was moved, in a summary.
func movedNames(m overlay.Rename, o diffOptions) (from, to string) {
	c := overlay.Change{Root: m.Root}
	if m.Directory {
		c.Mode = fs.ModeDir
	}
	c.Path = m.From
	from = summaryName(c, o)
	c.Path = m.To
	return from, summaryName(c, o)
}

// writeNameStatus writes a line per change: letter, tab, path. What was moved has both
// paths and stands behind the deletions, which it is one of.
func writeNameStatus(w *bufio.Writer, changes []overlay.Change, moved []overlay.Rename, o diffOptions) {
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

func writeStatus(w *bufio.Writer, c overlay.Change, o diffOptions) {
	fmt.Fprintf(w, "%c\t%s", c.Kind.Letter(), summaryName(c, o))
	if c.Runs != "" {
		w.WriteString("\truns later: " + c.Runs)
	}
	w.WriteByte('\n')
}

// writeStat writes how much was changed in each file, and in words what else is different.
func writeStat(w *bufio.Writer, s *overlay.Session, changes []overlay.Change, moved []overlay.Rename, o diffOptions) error {
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
			if _, moved := o.renames.of(below); moved || o.renames.inside(below) {
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
	if o.colour {
		colours = textdiff.Colours{Added: green, Deleted: red, Reset: normal}
	}
	return textdiff.WriteStats(w, stats, width, colours)
}

// movedStat counts the lines of something that was moved.
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

// stat counts the lines of one change. A directory of which there is nothing else to say
// is shown by what is in it.
func (d *diffWriter) stat(c overlay.Change) (st textdiff.Stat, show bool, err error) {
	st.Name = summaryName(c, d.o)
	if c.Runs != "" {
		st.Name += " (runs later: " + c.Runs + ")"
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
