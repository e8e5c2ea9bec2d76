//go:build linux

package diff

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

// Limits of what is printed about conflicts.
const (
	MostConflicts = 10 // conflicts with their texts
	hunksMost     = 3  // hunks of each
	linesMost     = 3  // lines of each hunk
)

// ConflictText describes both sides of a conflict.
func ConflictText(c overlay.Conflict) string {
	did := ""
	switch c.Kind {
	case overlay.Added:
		did = "made " + Version(c.Session)
	case overlay.Modified:
		did = "made it " + Version(c.Session)
	case overlay.Deleted:
		did = "deleted it"
	case overlay.TypeChanged:
		did = "put " + Version(c.Session) + " in its place"
	default:
		return c.Why
	}
	return fmt.Sprintf("%s: the session %s, the project has %s", c.Why, did, Version(c.Project))
}

// Version describes one side of a conflict.
func Version(v overlay.Version) string {
	if !v.Exists {
		return "nothing"
	}
	text := "a " + typeName(v.Mode)
	if v.Mode.IsRegular() {
		text += " of " + console.Plural(int(v.Size), "byte")
	}
	return text + " from " + v.ModTime.Local().Format("2006-01-02 15:04:05")
}

// A ConflictDetail describes a conflict more closely than its versions do.
type ConflictDetail struct {
	Lines  []string // for people; escaped
	Merges bool     // --merge would resolve it
}

// DetailOf finds out whether a conflict can be merged.
func DetailOf(s *overlay.Session, c overlay.Conflict) (d ConflictDetail) {
	if c.Index != "" {
		return d
	}
	hunks, err := s.Overlaps(c)
	switch {
	case err == nil && len(hunks) == 0 && c.Unmerged == nil:
		d.Merges = true
		d.Lines = append(d.Lines, "the lines that both changed do not overlap")
		return d
	case c.Kind == overlay.Added && errors.Is(cmp.Or(c.Unmerged, err), overlay.ErrNoBase):
		d.Lines = append(d.Lines, "it cannot be merged: there is no common base version")
	case errors.Is(err, overlay.ErrNoBase):
		d.Lines = append(d.Lines, "it cannot be merged: "+overlay.ErrNoBase.Error())
	case errors.Is(c.Unmerged, overlay.ErrNotText) && !(isFile(c.Project) && isFile(c.Session)):
		d.Lines = append(d.Lines, "it cannot be merged: only two files can")
	case c.Unmerged != nil:
		d.Lines = append(d.Lines, "it cannot be merged: "+c.Unmerged.Error())
	}
	if err != nil && !errors.Is(err, overlay.ErrNoBase) {
		return d
	}
	for i, h := range hunks {
		if i == hunksMost {
			d.Lines = append(d.Lines, console.Plural(len(hunks)-i, "more place"))
			break
		}
		d.Lines = append(d.Lines, hunkLines(h, err == nil)...)
	}
	return d
}

func isFile(v overlay.Version) bool { return v.Exists && v.Mode.IsRegular() }

// hunkLines shows the versions of some lines one below the other.
func hunkLines(h overlay.Hunk, based bool) (list []string) {
	place := fmt.Sprintf("line %d", h.Line)
	side := func(name string, lines []string) {
		if len(lines) == 0 {
			list = append(list, fmt.Sprintf("%-10s %-8s (nothing)", place, name))
			place = ""
		}
		for i, line := range lines {
			if i == linesMost {
				list = append(list, fmt.Sprintf("%-10s %-8s (%s)", place, name, console.Plural(len(lines)-i, "more line")))
				break
			}
			list = append(list, fmt.Sprintf("%-10s %-8s %s", place, name, shortLine(line)))
			place, name = "", ""
		}
	}
	if based {
		side("was", h.Base)
	}
	side("project", h.Project)
	side("session", h.Session)
	return list
}

// shortLine escapes a line of a file, and shortens it.
func shortLine(line string) string {
	const most = 100
	text := escape.Printable(strings.ReplaceAll(line, "\t", "    "))
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}
