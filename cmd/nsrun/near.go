//go:build linux

package main

import (
	"errors"

	"github.com/nsrun/nsrun/nsexec"

	"os/exec"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/bwrapmode"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/near"
)

// Suggestions for an unknown word: words that are spelled almost like it, or begin like it.

// noVerb says that the first word of a command line is neither a verb nor a program.
func noVerb(words []string) int {
	text := `no such verb or program "` + escape.Printable(words[0]) + `"`
	meant := nearVerb(words[0])
	switch {
	case len(words) == 1 && advice.ShellText(words[0]):
		text += " (try: " + escape.Command([]string{"nsrun", "run", "-c", words[0]}) + ")"
	case meant != "":
		text += near.DidYouMean(meant)
	default:
		text += " (try: nsrun help)"
	}
	console.Say("%s", text)
	return console.ExitFailed
}

// isProgram reports whether a word names a program, or is a path.
func isProgram(word string) bool {
	_, err := exec.LookPath(word)
	return err == nil || strings.Contains(word, "/") && !advice.ShellText(word)
}

// ownOptions are bubblewrap's options and nsrun's, for a program that is called nsrun.
var ownOptions = bwrapmode.Owner{
	Name:    "nsrun",
	Usage:   "\nThese are bubblewrap's options. nsrun help lists nsrun's own verbs, nsrun help run the flags of nsrun run.\n",
	Version: func() int { return cmdVersion(nil) },
	Hint:    optionHint,
}

// optionHint returns a hint for a command line of bubblewrap's options that err is about, or "". words omit the
// program's name.
func optionHint(words []string, err error) string {
	if e, ok := errors.AsType[*bwrap.Error](err); ok && e.Unknown != "" {
		return unknownOptionHint(words, e.Unknown)
	}
	e, ok := errors.AsType[*nsexec.Error](err)
	switch {
	case !ok:
	case e.Op != nsexec.StepExec:
	case action(e.Path) != nil && words[0] != e.Path:
		return "a verb comes first; try: nsrun help " + e.Path
	case !strings.HasPrefix(words[0], "-"):
		return "without options nothing is mounted; try: " + escape.Command(append([]string{"nsrun", "run", "--"}, words...))
	}
	return ""
}

// unknownOptionHint returns a hint for a word that is not an option.
func unknownOptionHint(words []string, option string) string {
	if verb := laterVerb(words); verb != "" && verbOf(verb).FlagSet().Lookup(usage.FlagName(option)) != nil {
		return "flags come after the verb; try: nsrun " + verb + " " + escape.Quote(option) + " …"
	}
	options := bwrap.Options(true)
	names := make([]string, 0, len(options))
	for _, o := range options {
		if !o.Hidden {
			names = append(names, o.Name)
		}
	}
	if meant := near.Nearest(option, names); meant != "" {
		return `did you mean "` + meant + `"?`
	}
	return "try: nsrun help, or nsrun --help"
}

// laterVerb returns the first verb in words, except the first word, or "".
func laterVerb(words []string) string {
	for _, w := range words[min(1, len(words)):] {
		if action(w) != nil {
			return w
		}
	}
	return ""
}

// action returns the function of a verb. Nil: the word is no verb.
func action(name string) func(args []string) int {
	switch name {
	case "help":
		return cmdHelp
	case "man":
		return cmdMan
	case "completion":
		return cmdCompletion
	}
	for _, v := range verbs {
		if v.Name == name {
			return v.run
		}
	}
	return nil
}
