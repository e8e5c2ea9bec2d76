//go:build linux

package main

import (
	"flag"

	"github.com/nsrun/nsrun/internal/mcpargs"
)

// verb is a word that os.Args[1] may be: what help, the man page and the
// completions tell of it. The words of usage say what can be completed there, see
// package manual.
type verb struct {
	name  string
	usage string // arguments
	short string
	long  string
	flags func(*flag.FlagSet) // nil: none
}

// verbs in the order of help. It is data without code, so that starting the program
// does not pay for it.
var verbs = [...]verb{
	{name: "run", usage: "[flags] [--] COMMAND [ARG…]", short: "run a command in a sandbox over the project",
		long:  runHelp,
		flags: func(fs *flag.FlagSet) { runFlags(fs, &runOptions{}) }},
	{name: "policy", usage: "[flags] [--] [COMMAND [ARG…]]", short: "show what a command would see, write to and reach",
		long:  policyHelp,
		flags: func(fs *flag.FlagSet) { policyFlags(fs, &runOptions{}, new(bool)) }},
	{name: "ls", usage: "[--all] [--json] [--size] [-q]", short: "list sessions",
		long:  lsHelp,
		flags: func(fs *flag.FlagSet) { lsFlags(fs, &lsOptions{}) }},
	{name: "show", usage: "[--json] [SESSION]", short: "show what a session changed",
		long:  showHelp,
		flags: func(fs *flag.FlagSet) { jsonFlag(fs, new(bool)) }},
	{name: "diff", usage: "[flags] [SESSION] [PATH…]", short: "show what a session changed in files",
		long:  diffHelp,
		flags: func(fs *flag.FlagSet) { new(diffFlags).define(fs) }},
	{name: "review", usage: "[flags] [SESSION]", short: "choose in the terminal what to commit and what to drop",
		long:  reviewHelp,
		flags: func(fs *flag.FlagSet) { allowSpecialFlag(fs, new(bool)) }},
	{name: "commit", usage: "[flags] [SESSION] [PATH…]", short: "copy a session's changes to the project",
		long:  commitHelp,
		flags: func(fs *flag.FlagSet) { commitFlags(fs, &commitOptions{}) }},
	{name: "discard", usage: "[-q] [SESSION…]", short: "throw a session's changes away",
		flags: func(fs *flag.FlagSet) { quietFlag(fs, new(bool)) }},
	{name: "drop", usage: "[-q] SESSION PATH…", short: "throw a part of a session's changes away",
		long:  dropHelp,
		flags: func(fs *flag.FlagSet) { quietFlag(fs, new(bool)) }},
	{name: "undo", usage: "[--force] [-q] [SESSION]", short: "take back the last commit, drop or discard",
		long:  undoHelp,
		flags: func(fs *flag.FlagSet) { undoFlags(fs, &undoOptions{}) }},
	{name: "files", usage: "[flags] [PATH…]", short: "list files that are registered, and how many backups there are",
		long:  filesHelp,
		flags: func(fs *flag.FlagSet) { filesFlags(fs, &filesOptions{}) }},
	{name: "log", usage: "[flags] [EXECUTION] [PATH]", short: "show what was run, and what it changed",
		long:  logHelp,
		flags: func(fs *flag.FlagSet) { logFlags(fs, &logOptions{}) }},
	{name: "restore", usage: "[flags] PATH", short: "put a file back as it was",
		long:  restoreHelp,
		flags: func(fs *flag.FlagSet) { restoreFlags(fs, &restoreOptions{}) }},
	{name: "watch", usage: "[flags] DIR…", short: "print what changes in directories, while it does",
		long:  watchHelp,
		flags: func(fs *flag.FlagSet) { watchFlags(fs, &watchOptions{}) }},
	{name: "gc", usage: "[flags] [SESSION…]", short: "remove old sessions and backups",
		long:  gcHelp,
		flags: func(fs *flag.FlagSet) { gcFlags(fs, &gcOptions{}) }},
	{name: "doctor", usage: "[--sessions] [--json]", short: "tell what this machine can do, and what is with the sessions",
		long:  doctorHelp,
		flags: func(fs *flag.FlagSet) { doctorFlags(fs, &doctorOptions{}) }},
	{name: "mcp", usage: "[flags]", short: "serve agents: a tool that runs commands, over the Model Context Protocol",
		long:  mcpHelp,
		flags: func(fs *flag.FlagSet) { mcpargs.Define(fs, &mcpargs.Options{}) }},
	{name: "completion", usage: "bash|zsh|fish", short: "print a shell's completion script",
		long: "It completes bwrap too where that is a link to nsrun."},
	{name: "man", short: "print the man page", long: "it is shown by nsrun man | man -l -."},
	{name: "version", short: "print the version"},
	{name: "help", usage: "[VERB]", short: "explain a verb"},
}

// action is what a verb does, nil for other words.
func action(name string) func(args []string) int {
	switch name {
	case "run":
		return run
	case "policy":
		return policy
	case "ls":
		return ls
	case "show":
		return show
	case "diff":
		return diff
	case "review":
		return review
	case "commit":
		return commit
	case "discard":
		return discard
	case "drop":
		return drop
	case "undo":
		return undo
	case "files":
		return files
	case "log":
		return showLog
	case "restore":
		return restore
	case "watch":
		return watch
	case "gc":
		return gc
	case "doctor":
		return doctor
	case "mcp":
		return mcp
	case "completion":
		return completion
	case "man":
		return man
	case "version":
		return version
	case "help":
		return help
	}
	return nil
}

func jsonFlag(fs *flag.FlagSet, to *bool)  { fs.BoolVar(to, "json", false, "print JSON") }
func quietFlag(fs *flag.FlagSet, to *bool) { fs.BoolVar(to, "q", false, "say nothing on success") }
