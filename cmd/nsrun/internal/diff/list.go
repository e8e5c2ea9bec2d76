//go:build linux

package diff

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/overlay"
)

// printChanges prints changes, deletions first, and a new or deleted directory as one line. It shortens nothing.
func printChanges(w io.Writer, prefix string, changes []overlay.Change, several bool) {
	if w == os.Stderr {
		console.ClearModes()
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, deletions := range [...]bool{true, false} {
		for i := 0; i < len(changes); i++ {
			c := changes[i]
			if (c.Kind == overlay.Deleted) != deletions {
				continue
			}
			line := c.String()
			if several {
				line = line[:2] + escape.Quote(c.Root) + ": " + line[2:]
			}
			if c.Kind == overlay.Added && c.Mode.IsDir() {
				// Special files and files that run later have lines of their own.
				n := 0
				for _, in := range changes[i+1 : i+1+below(changes[i:])] {
					if in.Special != "" || in.Runs != "" {
						break
					}
					n++
				}
				if n > 0 {
					line += fmt.Sprintf(" (and %d below)", n)
				}
				i += n
			}
			fmt.Fprintf(out, "%s%s%s\n", prefix, line, details(c))
		}
	}
}

// details returns what a change's letter does not say, in parentheses.
func details(c overlay.Change) string {
	var list []string
	switch {
	case c.Kind == overlay.Deleted && c.Below > 0:
		list = append(list, fmt.Sprintf("and %d below", c.Below))
	case c.Kind == overlay.TypeChanged:
		was := "was a " + typeName(c.OldMode)
		if c.Below > 0 {
			was += fmt.Sprintf(" with %d below", c.Below)
		}
		list = append(list, was)
	case c.Kind == overlay.Modified && c.Aspects&^overlay.Content != 0:
		for _, a := range jsonform.Aspects(c) {
			if a == "mode" && c.Mode != c.OldMode {
				a += " " + jsonform.Octal(c.OldMode) + " → " + jsonform.Octal(c.Mode)
			}
			list = append(list, a)
		}
	}
	if c.Special != "" {
		list = append(list, c.Special)
	}
	if c.Runs != "" {
		list = append(list, c.Later())
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// below counts the changes in the new directory changes[0].
func below(changes []overlay.Change) (n int) {
	dir := changes[0]
	for _, c := range changes[1:] {
		if c.Root != dir.Root || !strings.HasPrefix(c.Path, dir.Path+"/") {
			break
		}
		n++
	}
	return n
}

// Print prints changes like printChanges, and a rename as one line after the deletions. Special files and files that
// run later always have lines of their own.
func Print(w io.Writer, prefix string, changes []overlay.Change, moved []overlay.Rename, several bool) {
	index := IndexRenames(moved)
	var gone, rest []overlay.Change
	for _, c := range changes {
		if _, ok := index.of(c); (ok || index.Inside(c)) && c.Special == "" && c.Runs == "" {
			continue
		}
		if c.Kind == overlay.Deleted {
			gone = append(gone, c)
		} else {
			rest = append(rest, c)
		}
	}
	printChanges(w, prefix, gone, several)
	for _, m := range moved {
		line := prefix + "R "
		if several {
			line += escape.Quote(m.Root) + ": "
		}
		slash := ""
		if m.Directory {
			slash = "/"
		}
		line += escape.Quote(m.From+slash) + " → " + escape.Quote(m.To+slash)
		if m.Similarity < 100 {
			line += fmt.Sprintf(" (%d%% equal)", m.Similarity)
		}
		fmt.Fprintln(w, line)
	}
	printChanges(w, prefix, rest, several)
}
