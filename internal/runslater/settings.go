package runslater

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Some files have settings that run something among many that do not. This file finds those settings in the text of a
// file, whatever its form is: lines with names and values, sections, YAML, JSON, TOML, properties of Java. It need not
// be exact, but must see all names that a program sees. So it goes by words, and not by the place that a name has in
// one of these forms.

// mostSearched and mostParsed limit how many bytes one Classifier searches for settings, and parses as git's
// configuration: a command can make thousands of names for one large file. All files after that are taken to run later.
const (
	mostSearched = 16 << 20
	mostParsed   = 16 << 20
)

// newSettings reports whether a file has a setting with one of some names that the old file does not have in the same
// words.
func (c *Classifier) newSettings(p string, names []string) bool {
	if c.searched > mostSearched {
		return true
	}
	now, ok := c.New.Read(p)
	c.searched += len(now)
	if !ok || otherEncoding(now) {
		return true
	}
	list, ok := settings(now, names)
	if !ok {
		return true
	}
	if len(list) == 0 {
		return false
	}
	old, _ := c.Old.Read(p)
	had, ok := settings(old, names)
	before := make(map[string]bool, len(had))
	for _, text := range had {
		before[text] = true
	}
	return !ok || slices.ContainsFunc(list, func(text string) bool {
		return !before[text] || old != now && refers(text)
	})
}

// otherEncoding reports whether a text may be in another encoding than UTF-8, which some programs recognize.
func otherEncoding(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }

// refers reports whether the value of a setting may come from another place in the file: of YAML, or by interpolation.
func refers(text string) bool {
	return strings.Contains(text, "*") || strings.Contains(text, "%(") || strings.Contains(text, "${")
}

// endsLine reports whether a program may end a line at a character.
func endsLine(r rune) bool {
	return r == '\n' || r == '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// mostValues limits the length of all settings that are found in a file. Settings can lie in the values of others, so
// in a hostile file each line can begin a setting that goes on to the end. In other files only a few lie in each other.
const mostValues = 8 << 20

// settings returns the settings with some names, each with all lines of its value. If they are too long, ok is false.
func settings(text string, names []string) (list []string, ok bool) {
	lines := strings.FieldsFunc(text, endsLine)
	text = strings.Join(lines, "\n")
	at, sum := 0, 0
	for i, line := range lines {
		if isSetting(line, names) {
			n := len(line)
			for _, more := range lines[i+1 : i+valueLines(lines[i:])] {
				n += 1 + len(more)
			}
			if sum += n; sum > mostValues {
				return nil, false
			}
			list = append(list, text[at:at+n])
		}
		at += len(line) + 1
	}
	return list, true
}

// valueLines returns how many lines the setting takes that begins in the first one. Its value goes on in lines that are
// indented, are items of a list, or follow a bracket or a quote that is open. A section goes on up to the next one.
func valueLines(lines []string) int {
	last := strings.TrimSpace(lines[0])
	section, first := strings.HasPrefix(last, "["), indent(lines[0])
	depth, quoted := opened(last)
	for i, line := range lines[1:] {
		text := strings.TrimSpace(line)
		further := indent(line) - first
		switch {
		case section:
			if strings.HasPrefix(text, "[") {
				return i + 1
			}
		case text == "" || depth > 0 || quoted || further > 0:
		case further == 0 && strings.ContainsRune("-?:,=[]{}|", rune(text[0])):
		case !strings.ContainsRune(`:=,|>\[{(`, rune(last[len(last)-1])):
			return i + 1
		}
		if text != "" {
			last = text
		}
		d, q := opened(text)
		depth, quoted = max(0, depth+d), quoted != q
	}
	return len(lines)
}

// opened returns how many more brackets a line opens than it closes, and whether it opens or closes a long quote.
func opened(line string) (depth int, quote bool) {
	count := func(s string) int { return strings.Count(line, s) }
	return count("{") + count("[") + count("(") - count("}") - count("]") - count(")"), (count(`"""`)+count("'''"))%2 == 1
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// isSetting reports whether a line has a setting with one of some names: a word that begins the line, or that a colon,
// an equals sign, a comma or the end of the line follows. "*text" means any line with that text except comments,
// "**text" comments, too.
func isSetting(line string, names []string) bool {
	line = strings.TrimSpace(strings.Map(plainSpace, strings.ToLower(line)))
	if line == "" {
		return false
	}
	// Where a text goes on over several lines, or between brackets, such a line is no comment in YAML and TOML.
	comment := line[0] == '#' && !strings.ContainsAny(line, `"'`) || line[0] == ';' && !strings.ContainsAny(line, `"',{[`)
	key := line
	if i := strings.IndexAny(line, "=: "); i >= 0 {
		key = line[:i]
	}
	if !comment && (strings.ContainsAny(key, `\$`) || strings.HasSuffix(line, `\`) || strings.Contains(line, `\u`) || strings.Contains(line, `\x`)) {
		return true // a name is written in another way
	}
	words := strings.ReplaceAll(line, "_", "-")
	return slices.ContainsFunc(names, func(name string) bool {
		if text, ok := strings.CutPrefix(name, "**"); ok {
			return strings.Contains(line, text)
		}
		if text, ok := strings.CutPrefix(name, "*"); ok {
			return !comment && strings.Contains(line, text)
		}
		return !comment && hasName(words, name)
	})
}

// plainSpace makes a space of what some programs take for one, or ignore.
func plainSpace(r rune) rune {
	if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
		return ' '
	}
	return r
}

// hasName reports whether a line has a word as the name of a setting. The line can be long, and have the word often.
func hasName(line, name string) bool {
	start := len(line) - len(strings.TrimLeft(line, `"'[{( `))
	first := func(chars string) int { // where one of them is first
		if i := strings.IndexAny(line[start:], chars); i >= 0 {
			return start + i
		}
		return len(line)
	}
	space, sign := first(" "), first(":=")
	brace := strings.Index(line, "{")
	for at := 0; ; at += len(name) {
		i := strings.Index(line[at:], name)
		if i < 0 {
			return false
		}
		at += i
		if at > 0 && (isKey(line[at-1]) || strings.ContainsRune("/@", rune(line[at-1]))) {
			continue
		}
		after := line[at+len(name):]
		end := strings.TrimLeft(after, ` "'[]})`)
		switch {
		case end == "" || strings.ContainsRune(":=,", rune(end[0])):
			return true
		case space >= at && after[0] == ' ':
			return true
		case after[0] == '.' && (sign >= at || brace >= 0 && brace < at):
			return true
		}
	}
}
