//go:build linux

package main

import (
	"os/exec"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/bwrap"
)

// What was meant by a word that is none: what is written almost like it, or begins like it.

// noVerb says that the first word of a command line is neither a verb nor a program.
func noVerb(words []string) int {
	text := `no such verb or program "` + escape.Printable(words[0]) + `"`
	near := nearVerb(words[0])
	switch {
	case len(words) == 1 && advice.ShellText(words[0]):
		text += " (try: " + escape.Command([]string{"nsrun", "run", "-c", words[0]}) + ")"
	case near != "":
		text += usage.DidYouMean(near)
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

// bwrapHint is what may have been meant by a command line in bubblewrap's manner that is
// refused with this message, or empty. words are without this program's name.
func bwrapHint(words []string, message string) string {
	if option, ok := strings.CutPrefix(message, "Unknown option "); ok {
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
		if near := usage.Nearest(option, names); near != "" {
			return `did you mean "` + near + `"?`
		}
		return "try: nsrun help, or nsrun --help"
	}
	name, ok := strings.CutPrefix(message, "execvp ")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, ": ")
	switch first := words[0]; {
	case action(name) != nil && first != name:
		return "a verb comes first; try: nsrun help " + name
	case !strings.HasPrefix(first, "-"):
		return "without options nothing is mounted; try: " + escape.Command(append([]string{"nsrun", "run", "--"}, words...))
	}
	return ""
}

// laterVerb is the first verb among words that is not the first of them, or empty.
func laterVerb(words []string) string {
	for _, w := range words[min(1, len(words)):] {
		if action(w) != nil {
			return w
		}
	}
	return ""
}

// action is what a verb does, nil for other words.
func action(name string) func(args []string) int {
	switch name {
	case "help":
		return help
	case "man":
		return man
	case "completion":
		return completion
	}
	for _, v := range verbs {
		if v.Name == name {
			return v.run
		}
	}
	return nil
}
