package config

import (
	"strings"
)

// A Line is an element of a list in a file, with a comment.
type Line struct{ Value, Comment string }

type List struct {
	Key   string
	Lines []Line
}

// Written returns a file with lists, one element per line, between comments, whose text must be printable. It omits
// empty lists.
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

func (l *Layer) Says(key, text string) bool {
	i := keyNumber("sandbox", key)
	return i >= 0 && l.Values[i] != nil && within([]Item{{Text: text}}, l.Values[i].Items)
}
