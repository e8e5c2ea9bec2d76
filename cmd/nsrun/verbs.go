//go:build linux

package main

import (
	"flag"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/near"
)

// verbs in the order of help. The table is data without code, so that it does not slow down the start. A nil entry is
// about this table itself, see action.
var verbs = [...]struct {
	*usage.Verb
	run func(args []string) int
}{
	{&runVerb, cmdRun},
	{&policyVerb, cmdPolicy},
	{&whyVerb, cmdWhy},
	{&learnVerb, cmdLearn},
	{&configVerb, cmdConfig},
	{&trustVerb, cmdTrust},
	{&lsVerb, cmdLs},
	{&showVerb, cmdShow},
	{&diffVerb, cmdDiff},
	{&reviewVerb, cmdReview},
	{&commitVerb, cmdCommit},
	{&discardVerb, cmdDiscard},
	{&dropVerb, cmdDrop},
	{&undoVerb, cmdUndo},
	{&filesVerb, cmdFiles},
	{&logVerb, cmdLog},
	{&restoreVerb, cmdRestore},
	{&watchVerb, cmdWatch},
	{&homeVerb, cmdHome},
	{&gcVerb, cmdGC},
	{&doctorVerb, cmdDoctor},
	{&mcpVerb, cmdMCP},
	{&completionVerb, nil},
	{&manVerb, nil},
	{&versionVerb, cmdVersion},
	{&helpVerb, nil},
}

// verbOf returns the verb of that name, nil if there is none.
func verbOf(name string) *usage.Verb {
	for _, v := range verbs {
		if v.Name == name {
			return v.Verb
		}
	}
	return nil
}

// otherWords are names that other programs have for our verbs.
var otherWords = [...][2]string{
	{"list", "ls"}, {"status", "ls"}, {"sessions", "ls"}, {"exec", "run"}, {"shell", "run"}, {"apply", "commit"}, {"accept", "commit"},
	{"revert", "undo"}, {"rollback", "undo"}, {"reject", "discard"}, {"delete", "discard"}, {"remove", "discard"},
	{"history", "log"}, {"clean", "gc"}, {"prune", "gc"}, {"check", "doctor"},
}

// nearVerb is the verb that is similar to a word, or empty.
func nearVerb(word string) string {
	for _, w := range otherWords {
		if w[0] == word {
			return w[1]
		}
	}
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.Name
	}
	return near.Nearest(word, names)
}

var helpVerb = usage.Verb{
	Name: "help", Args: "[VERB|presets]",
	Short: "explain a verb, or list the presets",
}

var manVerb = usage.Verb{
	Name: "man", Args: "[--markdown]",
	Short: "print the man page",
	Long:  "To read it: nsrun man | man -l -.",
	Flags: func(fs *flag.FlagSet) { markdownFlag(fs, new(bool)) },
}

func markdownFlag(fs *flag.FlagSet, to *bool) {
	fs.BoolVar(to, "markdown", false, "print what docs/cli.md has")
}

var completionVerb = usage.Verb{
	Name: "completion", Args: "bash|zsh|fish",
	Short: "print a shell's completion script",
	Long:  "It completes bwrap too where that is a link to nsrun.",
}
