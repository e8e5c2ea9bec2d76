package textdiff

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Stat is how much of one file changed.
type Stat struct {
	Name           string // as it is to be printed
	Added, Deleted int    // lines

	// Note is printed instead of the numbers. Empty: there is none.
	Note string
}

// BinaryNote is a note about a file that is not text, with its sizes in bytes.
func BinaryNote(old, new int64) string {
	return "Bin " + strconv.FormatInt(old, 10) + " -> " + strconv.FormatInt(new, 10) + " bytes"
}

// Colours surround added and deleted lines in WriteStats. The zero Colours are none.
type Colours struct{ Added, Deleted, Reset string }

// WriteStats writes a line per file and a summary, as git diff --stat does, for a terminal of that width, but truncates
// no name.
func WriteStats(w io.Writer, stats []Stat, width int, c Colours) error {
	out := bufio.NewWriter(w)
	names, numbers, most, added, deleted := 0, 0, 0, 0, 0
	for _, s := range stats {
		names = max(names, utf8.RuneCountInString(s.Name))
		if s.Note == "" {
			most = max(most, s.Added+s.Deleted)
			added, deleted = added+s.Added, deleted+s.Deleted
		} else if strings.HasPrefix(s.Note, "Bin ") {
			numbers = 3
		}
	}
	numbers = max(numbers, len(fmt.Sprint(most)))
	graph := max(width-names-numbers-6, 10)
	for _, s := range stats {
		pad := strings.Repeat(" ", names-utf8.RuneCountInString(s.Name))
		if s.Note != "" {
			fmt.Fprintf(out, " %s%s | %s\n", s.Name, pad, s.Note)
			continue
		}
		plus, minus := s.Added, s.Deleted
		if most > graph {
			plus, minus = scale(plus, minus, graph, most)
		}
		line := fmt.Sprintf(" %s%s | %*d", s.Name, pad, numbers, s.Added+s.Deleted)
		if plus+minus > 0 {
			line += " "
		}
		if plus > 0 {
			line += c.Added + strings.Repeat("+", plus) + c.Reset
		}
		if minus > 0 {
			line += c.Deleted + strings.Repeat("-", minus) + c.Reset
		}
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, " %s changed", plural(len(stats), "file"))
	if len(stats) > 0 && (added > 0 || deleted == 0) {
		fmt.Fprintf(out, ", %s(+)", plural(added, "insertion"))
	}
	if len(stats) > 0 && (deleted > 0 || added == 0) {
		fmt.Fprintf(out, ", %s(-)", plural(deleted, "deletion"))
	}
	fmt.Fprintln(out)
	return out.Flush()
}

func scale(plus, minus, width, most int) (int, int) {
	linear := func(n int) int {
		if n == 0 {
			return 0
		}
		return 1 + n*(width-1)/most
	}
	total := linear(plus + minus)
	if total < 2 && plus > 0 && minus > 0 {
		total = 2
	}
	if plus < minus {
		plus = linear(plus)
		return plus, total - plus
	}
	minus = linear(minus)
	return total - minus, minus
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n) + " " + what + "s"
}
