package nsrun

import (
	"cmp"

	"github.com/nsrun/nsrun/internal/escape"
)

// A Need is something that a command cannot do without, and that a Config does not allow: see Learn.
type Need struct {
	// Kind is RefusedRead (the host's files at a path are seen), RefusedWrite (they are written to in place), RefusedUnix
	// (connections to a unix socket) or RefusedConnect (a rule of the network).
	Kind RefusalKind `json:"kind"`
	// Target is an absolute path; of the network it is a rule, see netpolicy.Parse.
	Target string `json:"target"`
	// Program needed it first, as in Refusal. Empty: it is not known.
	Program string `json:"program,omitempty"`
	// Why says for people what refused it. Empty: it was given.
	Why string `json:"why,omitempty"`
}

// needs are the kinds, with the flags of nsrun run that allow them, and what a command does with them.
var needs = [...]struct {
	kind       RefusalKind
	flag, deed string
}{
	{RefusedRead, "--ro", "read"}, {RefusedWrite, "--rw", "written to"}, {RefusedUnix, "--allow-unix", "connected to"},
	{RefusedConnect, "--allow-net", "reached"},
}

// Flag is the flag of nsrun run that allows it. Empty: there is no such Kind.
func (n Need) Flag() string {
	for _, k := range needs {
		if k.kind == n.Kind {
			return k.flag + " " + escape.Command([]string{n.Target})
		}
	}
	return ""
}

// same reports whether two of them are one.
func (n Need) same(o Need) bool { return n.Kind == o.Kind && n.Target == o.Target }

// Comment says in one line who needed it, and what refused it; nothing in it acts on a terminal.
func (n Need) Comment() string {
	text := ""
	for _, k := range needs {
		if k.kind == n.Kind {
			text = k.deed
		}
	}
	if n.Program != "" {
		text += " by " + n.Program
	}
	return text + ": " + cmp.Or(n.Why, "it was given")
}

// LearnOptions say how to learn. The zero LearnOptions begin with what the Config allows.
type LearnOptions struct {
	// Given are opened from the beginning, and without a question. Those of them that the command can do without are no
	// part of the Lesson. Nil: none.
	Given []Need
	// Ran is called after each run of the command, with what was opened for it beyond the Config. Nil: nobody is told.
	Ran func(r Result, opened []Need)
}

// A Lesson is what Learn found.
type Lesson struct {
	// Needs are what the command cannot do without: it fails where one of them is missing. Nil: it succeeds as it is.
	Needs []Need
	// Network says that the rules among the Needs are all that the command needs of the network; else those of the Config
	// are needed as well.
	Network bool
	// Sockets says the same of unix sockets.
	Sockets bool
	// Without are what the command was refused in the last run, in which it succeeded or, with a *LearnError, failed.
	Without []Refusal
	// Last is the Result of that run, and Runs is how many there were.
	Last Result
	Runs int
}

// LearnError says that a command failed with all that could be opened for it.
type LearnError struct {
	// Closed are the refusals that were not opened: nothing opens them, or that was not approved. Nil: there are none, and
	// the command fails for a reason of its own.
	Closed []Refusal
}

func (e *LearnError) Error() string {
	if len(e.Closed) == 0 {
		return "the command fails with all that it asks for: the reason is its own"
	}
	return "the command fails, and something that it was refused was not opened: " + e.Closed[0].String()
}
