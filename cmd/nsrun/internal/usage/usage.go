//go:build linux

package usage

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/near"
)

// Verb is what help, the man page, the completions and docs/cli.md tell of a verb. The
// words of Args say what can be completed there, see package manual.
type Verb struct {
	Name  string
	Args  string // as they are typed; empty: there are none
	Short string // a few words, without a full stop
	Long  string // sentences; empty: there is no more to say
	// Examples are command lines, one per line. Empty: the verb needs none.
	Examples string
	Flags    func(*flag.FlagSet)
}

// FlagSet returns the verb's flags, of which only the descriptions are of use.
func (v *Verb) FlagSet() *flag.FlagSet {
	fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if v.Flags != nil {
		v.Flags(fs)
	}
	return fs
}

// Parse parses the flags of a verb, which may stand between its other words, up to
// "--"; ok is false if that was all there is to do.
func (v *Verb) Parse(args []string, define func(*flag.FlagSet)) (rest []string, status int, ok bool) {
	fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	define(fs)
	rest, err := Words(fs, args)
	if err != nil {
		return nil, v.Fail(v.Wrong(fs, err)), false
	}
	return rest, 0, true
}

// Words parses flags that may stand between other words, up to "--", and returns those.
func Words(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := Flags(fs, args); err != nil {
			return nil, err
		}
		left := fs.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// Flags parses flags as fs.Parse does, but that "--" is no flag's value: it ends the flags, and
// the value before it was forgotten.
func Flags(fs *flag.FlagSet, all []string) error {
	args := all
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		f := fs.Lookup(FlagName(args[0]))
		if f == nil {
			break // which Parse says
		}
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		alone := ok && b.IsBoolFlag() || strings.Contains(args[0], "=")
		args = args[1:]
		switch {
		case alone || len(args) == 0:
		case args[0] == "--":
			return fmt.Errorf("flag needs an argument: -%s", f.Name)
		default:
			args = args[1:]
		}
	}
	return fs.Parse(all)
}

// Fail says what Parse or Wrong found, which may be that help was asked for, and returns the exit status.
func (v *Verb) Fail(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return v.Help()
	}
	return console.Fail(err)
}

// Help explains the verb on standard output, and returns the exit status.
func (v *Verb) Help() int {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: nsrun %s\n\n%s\n", strings.TrimRight(v.Name+" "+v.Args, " "), v.Short)
	if v.Long != "" {
		b.WriteString("\n" + v.Long + "\n")
	}
	v.FlagSet().VisitAll(func(f *flag.Flag) { helpFlag(&b, f) })
	if v.Examples != "" {
		b.WriteString("\nExamples:\n  " + strings.ReplaceAll(v.Examples, "\n", "\n  ") + "\n")
	}
	return console.PrintText(b.String())
}

// helpWidth is how wide lines about flags are, in columns: as wide as the texts about verbs.
const helpWidth = 90

// helpFlag writes the lines about a flag. Values to choose from are in its description.
func helpFlag(b *strings.Builder, f *flag.Flag) {
	arg, usage := flag.UnquoteUsage(f)
	if strings.Contains(arg, "|") {
		arg = "WORD"
	}
	const indent = "                        "
	line := fmt.Sprintf("  %-22s", strings.TrimRight(Dashed(f.Name)+" "+arg, " "))
	full := len(line) > len(indent)
	for word := range strings.FieldsSeq(usage) {
		if full || len(line)+len(" ")+len(word) > helpWidth {
			b.WriteString(line + "\n")
			line, full = indent, false
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// Errorf is a mistake on the command line of a verb.
func Errorf(verb, format string, args ...any) error {
	hint := "try: nsrun help"
	if verb != "help" {
		hint += " " + verb
	}
	return advice.With(fmt.Errorf(verb+": "+format, args...), hint)
}

// Wrong is the mistake that package flag found in the words for the flags fs, or flag.ErrHelp.
func (v *Verb) Wrong(fs *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := flagText(err)
	if word, ok := strings.CutPrefix(text, "unknown flag "); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, Dashed(f.Name)) })
		if meant := near.Nearest(Dashed(FlagName(word)), names); meant != "" {
			text += near.DidYouMean(meant)
		}
	}
	return Errorf(v.Name, "%s", text)
}

// flagText is an error of package flag, with flags as they are typed here.
func flagText(err error) string {
	text := strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag -", 1)
	if before, ok := strings.CutSuffix(text, ": parse error"); ok {
		switch {
		case strings.HasSuffix(before, "timeout"), strings.HasSuffix(before, "grace"):
			text = before + ": not a duration like 10s or 5m"
		case strings.HasPrefix(before, "invalid boolean value"):
			text = before + ": the flag takes no value"
		default:
			text = before + ": not a number"
		}
	}
	for _, before := range [...]string{`" for flag -`, `" for -`, "flag needs an argument: -", "unknown flag -"} {
		i := strings.Index(text, before)
		if i < 0 {
			continue
		}
		i += len(before)
		if name, _, _ := strings.Cut(text[i:], ":"); len(name) > 1 && name[0] != '-' {
			text = text[:i] + "-" + text[i:]
		}
		break
	}
	return text
}
