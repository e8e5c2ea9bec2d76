package manual

import (
	"strings"

	"github.com/nsrun/nsrun/internal/bwrap"
)

// Markdown is the page of verbs and options for people who read the source tree.
func Markdown(verbs []Verb) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n<!-- Made by make generate: edit the tables of verbs and options. -->\n\n" +
		"    nsrun VERB …\n    nsrun [OPTIONS] [--] COMMAND [ARG…]\n\n" +
		"`nsrun help VERB` prints the same in a terminal, and so does nsrun(1).\n\n")
	for i := range verbs {
		b.WriteString("- [" + verbs[i].Name + "](#nsrun-" + verbs[i].Name + "): " + markdownText(verbs[i].Short) + "\n")
	}
	b.WriteString("- [options as bubblewrap has them](#options)\n")
	for i := range verbs {
		v := &verbs[i]
		b.WriteString("\n## nsrun " + v.Name + "\n\n    nsrun " + strings.TrimRight(v.Name+" "+v.Usage, " ") + "\n\n" +
			markdownText(sentence(v.Short)) + "\n")
		if v.Long != "" {
			b.WriteString("\n" + markdownParagraphs(v.Long) + "\n")
		}
		flags, note := v.own(&verbs[0])
		if note != "" {
			b.WriteString("\n" + note + "\n")
		}
		b.WriteString(markdownFlags(flags))
		if v.Examples != "" {
			b.WriteString("\nExamples:\n\n    " + strings.ReplaceAll(v.Examples, "\n", "\n    ") + "\n")
		}
	}
	b.WriteString("\n## Options\n\n`nsrun [OPTIONS] COMMAND` and a link to nsrun called `bwrap` take these. The link does not take " +
		"those with a plus.\n")
	options := bwrap.Options(true)
	for g := bwrap.Group(0); g.String() != ""; g++ {
		b.WriteString("\n### " + g.String() + "\n\n| option | meaning |\n|---|---|\n")
		for i := range options {
			o := &options[i]
			if o.Group != g || o.Hidden {
				continue
			}
			name := strings.TrimRight(o.Name+" "+o.Args, " ")
			if o.Ours {
				name += " (+)"
			}
			b.WriteString("| " + markdownCell(name, o.Help))
		}
	}
	return b.String()
}

// markdownFlags is a table of flags, with all names of a flag in one row.
func markdownFlags(flags []Flag) string {
	if len(flags) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| flag | meaning |\n|---|---|\n")
	for names, f := range items(flags) {
		b.WriteString("| " + markdownCell(strings.TrimRight(strings.Join(names, ", ")+" "+f.Arg, " "), f.Help))
	}
	return b.String()
}

// markdownCell is the rest of a row: what is typed, and what it means.
func markdownCell(name, help string) string {
	return "`" + strings.ReplaceAll(name, "|", `\|`) + "` | " + markdownText(strings.ReplaceAll(help, "\n", " ")) + " |\n"
}

// markdownParagraphs is running text, in which indented lines are as they were typed.
func markdownParagraphs(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		} else {
			lines[i] = markdownText(line)
		}
	}
	return strings.Join(lines, "\n")
}

// markdownText is s without what Markdown would make something of.
func markdownText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte("\\`*_[]<>|#", s[i]) >= 0 || s[i] == '(' && i > 0 && s[i-1] == ']' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// sentence is a few words with a capital letter and a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
