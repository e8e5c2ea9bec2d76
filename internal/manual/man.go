package manual

import (
	_ "embed"
	"iter"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/bwrap"
)

//go:embed nsrun.1.in
var manPage string

// Man is the man page, for the mdoc macros.
func Man(verbs []Verb) string {
	return fill(manPage, "SYNOPSIS", manSynopsis(verbs), "VERBS", manVerbs(verbs), "OPTIONS", manOptions())
}

func manSynopsis(verbs []Verb) string {
	var b strings.Builder
	for i := range verbs {
		b.WriteString(".Nm\n.Cm " + verbs[i].Name + "\n")
		for _, w := range manUsage(verbs[i].Usage, "Op ", "") {
			b.WriteString("." + w + "\n")
		}
	}
	return b.String()
}

// manUsage are the words of a usage, as macros; what is optional stands between open and end.
func manUsage(usage, open, end string) (list []string) {
	for w := range strings.FieldsSeq(usage) {
		word := strings.Trim(w, "[]")
		var macro string
		switch {
		case word[0] == '-':
			macro = "Fl " + manLiteral(word[1:])
		case strings.Contains(word, "|"):
			macro = "Cm " + strings.ReplaceAll(word, "|", " | ")
		case strings.HasSuffix(word, "…"):
			macro = "Ar " + manLiteral(strings.TrimSuffix(word, "…")) + " ..."
		default:
			macro = "Ar " + manLiteral(word)
		}
		if w != word {
			macro = open + macro + end
		}
		list = append(list, macro)
	}
	return list
}

func manVerbs(verbs []Verb) string {
	var b strings.Builder
	b.WriteString(".Bl -tag -width Ds\n")
	for i := range verbs {
		v := &verbs[i]
		words := append([]string{".It Cm " + v.Name}, manUsage(v.Usage, "Oo ", " Oc")...)
		b.WriteString(strings.Join(words, " ") + "\n" + manText(v.Short))
		if v.Long != "" {
			b.WriteString(manText(v.Long))
		}
		flags, note := v.own(&verbs[0])
		if note != "" {
			b.WriteString(manText(note))
		}
		b.WriteString(manFlags(flags))
		if v.Examples != "" {
			b.WriteString(".Pp\n")
			for line := range strings.SplitSeq(v.Examples, "\n") {
				b.WriteString(".Dl " + manLiteral(line) + "\n")
			}
		}
	}
	b.WriteString(".El\n")
	return b.String()
}

// manFlags is a list of flags, with all names of a flag in one item.
func manFlags(flags []Flag) string {
	if len(flags) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(".Bl -tag -width Ds\n")
	for names, f := range items(flags) {
		for i, name := range names {
			names[i] = manLiteral(name[1:])
		}
		b.WriteString(".It Fl " + strings.Join(names, " , Fl "))
		if f.Arg != "" {
			b.WriteString(" Ar " + strings.ReplaceAll(manLiteral(f.Arg), "|", " | "))
		}
		b.WriteString("\n" + manText(f.Help))
	}
	b.WriteString(".El\n")
	return b.String()
}

// items are the flags, each with all of its names as they are typed.
func items(flags []Flag) iter.Seq2[[]string, *Flag] {
	return func(yield func([]string, *Flag) bool) {
		for i := range flags {
			f := &flags[i]
			same := func(other Flag) bool { return other.Arg == f.Arg && other.Help == f.Help }
			if slices.ContainsFunc(flags[:i], same) {
				continue
			}
			var names []string
			for j := range flags[i:] {
				if other := &flags[i+j]; same(*other) {
					names = append(names, other.Typed())
				}
			}
			if !yield(names, f) {
				return
			}
		}
	}
}

func manOptions() string {
	var b strings.Builder
	options := bwrap.Options(true)
	for g := bwrap.Group(0); g.String() != ""; g++ {
		b.WriteString(".Ss " + g.String() + "\n.Bl -tag -width Ds\n")
		for i := range options {
			o := &options[i]
			if o.Group != g || o.Hidden {
				continue
			}
			b.WriteString(".It Fl " + manLiteral(o.Name[1:]))
			for w := range strings.FieldsSeq(o.Args) {
				b.WriteString(" Ar " + manLiteral(w))
			}
			if o.Ours {
				b.WriteString(" Pq +")
			}
			b.WriteString("\n" + manText(strings.ReplaceAll(o.Help, "\n", " ")))
		}
		b.WriteString(".El\n")
	}
	return b.String()
}

// manLiteral is s as it can be typed: without it a dash may be shown as something else.
func manLiteral(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	return strings.ReplaceAll(s, `"`, `\(dq`)
}

// manText is running text: every sentence begins a line, as mdoc wants it, and lines
// are short. The first letter and the full stop are added where they are missing.
func manText(s string) string {
	var b strings.Builder
	column := 0
	for i, w := range strings.Fields(s) {
		if i == 0 && 'a' <= w[0] && w[0] <= 'z' {
			w = string(w[0]-'a'+'A') + w[1:]
		}
		sentence := strings.HasSuffix(w, ".")
		if strings.HasPrefix(strings.TrimLeft(w, "("), "-") {
			w = manLiteral(w)
		} else {
			w = strings.ReplaceAll(w, `\`, `\e`)
		}
		w = strings.ReplaceAll(w, "…", "...")
		if column+len(w) > 76 {
			b.WriteByte('\n')
			column = 0
		}
		if column > 0 {
			b.WriteByte(' ')
		} else if w[0] == '.' || w[0] == '\'' {
			w = `\&` + w
		}
		b.WriteString(w)
		column += 1 + len(w)
		if sentence {
			b.WriteByte('\n')
			column = 0
		}
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text + "\n"
}
