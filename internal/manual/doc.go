// Package manual makes the man page, docs/cli.md and the shell completions from the tables that parsing and help use
// too: bwrap's options in internal/bwrap, which it imports, and the verbs with their flags, which the nsrun command
// passes in. It returns texts and writes no files.
//
// The text that does not come from a table is in the files that end with .in. A line there that
// consists of a name between two @ is replaced.
package manual

import (
	"slices"
	"strings"
)

// Verb is a verb of the nsrun command.
type Verb struct {
	Name string
	// Usage are its arguments, separated by spaces. What begins with a dash or is called "flags", in brackets,
	// stands for flags; the others are operands, which end with … if they may be repeated.
	Usage string
	Short string // a few words, without a full stop
	Long  string // sentences; may be empty
	Flags []Flag
	// Examples are command lines, one per line; may be empty.
	Examples string
}

// Flag is a flag of a verb. Those with the same Arg and Help are names of one.
type Flag struct {
	Name string // without dashes
	Arg  string // what its word is called; empty if it takes none
	Help string
}

// Typed is the name with its dashes.
func (f *Flag) Typed() string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// own returns the flags of a verb for its list, and what is said above it. If the verb takes all flags of run, the
// first verb, these are not listed again.
func (v *Verb) own(run *Verb) (flags []Flag, note string) {
	if v == run || slices.ContainsFunc(run.Flags, func(f Flag) bool { return !slices.Contains(v.Flags, f) }) {
		return v.Flags, ""
	}
	return slices.DeleteFunc(slices.Clone(v.Flags), func(f Flag) bool { return slices.Contains(run.Flags, f) }),
		"It also takes all flags of nsrun " + run.Name + "."
}

// operands are the words after the flags.
func (v *Verb) operands() (words []string) {
	for w := range strings.FieldsSeq(v.Usage) {
		if w = strings.Trim(w, "[]"); w != "flags" && w[0] != '-' {
			words = append(words, w)
		}
	}
	return words
}

// fill replaces the lines of text that are names between two @.
func fill(text string, values ...string) string {
	for i := 0; i < len(values); i += 2 {
		text = strings.Replace(text, "@"+values[i]+"@\n", strings.TrimSuffix(values[i+1], "\n")+"\n", 1)
	}
	return text
}
