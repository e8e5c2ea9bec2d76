//go:build linux

package main

import (
	"flag"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/manual"
)

// cmdMan prints the man page, or docs/cli.md.
func cmdMan(args []string) int {
	var markdown bool
	rest, status, ok := manVerb.Parse(args, func(fs *flag.FlagSet) { markdownFlag(fs, &markdown) })
	switch {
	case !ok:
		return status
	case len(rest) > 0:
		return console.Fail(usage.Errorf("man", "takes no arguments"))
	case markdown:
		return console.PrintText(manual.Markdown(manualVerbs()))
	}
	return console.PrintText(manual.Man(manualVerbs()))
}

// cmdCompletion prints the completion script of a shell.
func cmdCompletion(args []string) int {
	args, status, ok := completionVerb.Parse(args, noFlags)
	switch {
	case !ok:
		return status
	case len(args) != 1:
		return console.Fail(usage.Errorf("completion", "takes the name of a shell: bash, zsh or fish"))
	}
	text, ok := manual.Completion(args[0], manualVerbs())
	if !ok {
		return console.Fail(usage.Errorf("completion", "no script for %s: only bash, zsh and fish", escape.Quote(args[0])))
	}
	return console.PrintText(text)
}

// manualVerbs is the table of verbs, with their flags.
func manualVerbs() []manual.Verb {
	list := make([]manual.Verb, 0, len(verbs))
	for _, v := range verbs {
		m := manual.Verb{Name: v.Name, Usage: v.Args, Short: v.Short, Long: v.Long, Examples: v.Examples}
		v.FlagSet().VisitAll(func(f *flag.Flag) {
			arg, help := flag.UnquoteUsage(f)
			m.Flags = append(m.Flags, manual.Flag{Name: f.Name, Arg: arg, Help: help})
		})
		list = append(list, m)
	}
	return list
}
