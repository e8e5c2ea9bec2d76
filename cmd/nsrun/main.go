// Nsrun runs commands in sandboxes. See README.md, or `nsrun help`.
package main

import (
	"os"
	"path/filepath"

	_ "github.com/nsrun/nsrun/internal/instant" // the entry point
	"github.com/nsrun/nsrun/internal/reexec"
)

// How this program speaks:
//
//   - standard output belongs to the command, and to what a verb was asked for;
//   - everything else goes to standard error, in lines that begin with "nsrun: ",
//     in lower case, without a full stop: what, which path, why, and at most one
//     hint that can be typed;
//   - success says nothing but what changed, and -q not even that;
//   - names of files are escaped where they hold control characters;
//   - it asks only on a terminal, and silence is never a yes.

func init() {
	// Sandboxes die with the thread that cloned them. Threads of this program live as
	// long as it: no goroutine of its ends while it is locked to one.
	reexec.InProcess = true
}

func main() {
	if filepath.Base(os.Args[0]) == "bwrap" {
		os.Exit(dropIn(os.Args, false))
	}
	if len(os.Args) > 1 {
		for _, v := range verbs {
			if v.name == os.Args[1] {
				os.Exit(v.run(os.Args[2:]))
			}
		}
		first := os.Args[1]
		if first == "-h" {
			os.Exit(help(nil))
		}
		status := dropIn(os.Args, true)
		if status != 0 && first != "" && first[0] != '-' {
			// A command without any option has nothing mounted to be found in.
			_ = help([]string{first})
		}
		os.Exit(status)
	}
	os.Exit(help(nil))
}

// verb is a word that os.Args[1] may be.
type verb struct {
	name  string
	usage string // arguments
	short string
	run   func(args []string) int
}

// verbs in the order of help. Filled in by init: help, which is one of them,
// lists them.
var verbs []verb

func init() {
	verbs = []verb{
		{"run", "[flags] [--] COMMAND [ARG…]", "run a command in a sandbox over the project", run},
		{"ls", "[--json]", "list sessions", ls},
		{"show", "[--json] [SESSION]", "show what a session changed", show},
		{"commit", "[SESSION] [PATH…]", "copy a session's changes to the project", commit},
		{"discard", "[SESSION…]", "throw a session's changes away", discard},
		{"doctor", "[--json]", "tell what this machine can do", doctor},
		{"version", "", "print the version", version},
		{"help", "[VERB]", "explain a verb", help},
	}
}
