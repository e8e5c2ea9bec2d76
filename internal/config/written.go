package config

import (
	"strings"
)

// A Line is one element of a list in a file, with what is said of it.
type Line struct{ Value, Comment string }

// A List is the value of a key of [sandbox].
type List struct {
	Key   string
	Lines []Line
}

// Written is a file with lists, each element on a line of its own, and comments before and behind them. Texts of comments
// must be printable. Lists without lines are left out.
func Written(before []string, lists []List, behind []string) []byte {
	var b strings.Builder
	comment := func(lines []string) {
		for _, line := range lines {
			b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
		}
	}
	comment(before)
	header := "\n[sandbox]\n"
	for _, l := range lists {
		if len(l.Lines) == 0 {
			continue
		}
		b.WriteString(header + l.Key + " = [\n")
		for _, line := range l.Lines {
			b.WriteString("    " + quoted(line.Value) + ", # " + line.Comment + "\n")
		}
		b.WriteString("]\n")
		header = ""
	}
	if len(behind) > 0 {
		b.WriteString("\n")
		comment(behind)
	}
	return []byte(b.String())
}

// Says reports whether a layer has an element in a list of [sandbox].
func (l *Layer) Says(key, text string) bool {
	i := keyNumber("sandbox", key)
	return i >= 0 && l.Values[i] != nil && within([]Item{{Text: text}}, l.Values[i].Items)
}
