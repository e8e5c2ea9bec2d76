//go:build linux

package main

import (
	"flag"
	"os"

	"github.com/nsrun/nsrun/internal/manual"
)

// man prints the man page.
func man(args []string) int {
	if len(args) > 0 {
		return fail(&usageError{"man", "takes no arguments"})
	}
	return printText(manual.Man(manualVerbs()))
}

// completion prints the script that makes a shell complete our command lines.
func completion(args []string) int {
	if len(args) != 1 {
		return fail(&usageError{"completion", "takes the name of a shell: bash, zsh or fish"})
	}
	text, ok := manual.Completion(args[0], manualVerbs())
	if !ok {
		return fail(&usageError{"completion", "no script for " + quote(args[0]) + ": only bash, zsh and fish"})
	}
	return printText(text)
}

func printText(text string) int {
	if _, err := os.Stdout.WriteString(text); err != nil {
		return fail(err)
	}
	return 0
}

// manualVerbs is the table of verbs, with their flags.
func manualVerbs() []manual.Verb {
	list := make([]manual.Verb, 0, len(verbs))
	for _, v := range verbs {
		m := manual.Verb{Name: v.name, Usage: v.usage, Short: v.short, Long: v.long}
		if v.flags != nil {
			fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
			v.flags(fs)
			fs.VisitAll(func(f *flag.Flag) {
				arg, help := flag.UnquoteUsage(f)
				m.Flags = append(m.Flags, manual.Flag{Name: f.Name, Arg: arg, Help: help})
			})
		}
		list = append(list, m)
	}
	return list
}
