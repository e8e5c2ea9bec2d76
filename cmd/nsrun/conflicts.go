//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

// How much is told of conflicts: of how many files the text, of how many places in each, and of how many lines there.
const (
	textsMost = 10
	hunksMost = 3
	linesMost = 3
)

// conflictText tells both sides of a conflict.
func conflictText(c overlay.Conflict) string {
	did := ""
	switch c.Kind {
	case overlay.Added:
		did = "made " + versionText(c.Session)
	case overlay.Modified:
		did = "made it " + versionText(c.Session)
	case overlay.Deleted:
		did = "deleted it"
	case overlay.TypeChanged:
		did = "put " + versionText(c.Session) + " in its place"
	default:
		return c.Why
	}
	return fmt.Sprintf("%s: the session %s, the project has %s", c.Why, did, versionText(c.Project))
}

// versionText describes one side of a conflict.
func versionText(v overlay.Version) string {
	if !v.Exists {
		return "nothing"
	}
	text := "a " + typeName(v.Mode)
	if v.Mode.IsRegular() {
		text += " of " + console.Plural(int(v.Size), "byte")
	}
	return text + " from " + v.ModTime.Local().Format("2006-01-02 15:04:05")
}

// A conflictDetail is what can be told of a conflict beside its versions.
type conflictDetail struct {
	lines  []string // escaped
	merges bool     // --merge would make one of both
}

// detail finds out what prevents a merge.
func detail(s *overlay.Session, c overlay.Conflict) (d conflictDetail) {
	if c.Index != "" {
		return d
	}
	hunks, err := s.Overlaps(c)
	switch {
	case err == nil && len(hunks) == 0 && c.Unmerged == nil:
		d.merges = true
		d.lines = append(d.lines, "the lines that both changed do not overlap")
		return d
	case c.Kind == overlay.Added && errors.Is(cmp.Or(c.Unmerged, err), overlay.ErrNoBase):
		d.lines = append(d.lines, "it cannot be merged: there is no version that both began with")
	case errors.Is(err, overlay.ErrNoBase):
		d.lines = append(d.lines, "it cannot be merged: "+overlay.ErrNoBase.Error())
	case c.Unmerged != nil:
		d.lines = append(d.lines, "it cannot be merged: "+c.Unmerged.Error())
	}
	if err != nil && !errors.Is(err, overlay.ErrNoBase) {
		return d
	}
	for i, h := range hunks {
		if i == hunksMost {
			d.lines = append(d.lines, console.Plural(len(hunks)-i, "more place"))
			break
		}
		d.lines = append(d.lines, hunkLines(h, err == nil)...)
	}
	return d
}

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

// shortLine is a line of a file as it can be shown.
func shortLine(line string) string {
	const most = 100
	text := escape.Printable(strings.ReplaceAll(line, "\t", "    "))
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}
