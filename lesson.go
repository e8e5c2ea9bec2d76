package nsrun

import (
	"cmp"

	"github.com/nsrun/nsrun/internal/escape"
)

// A Need is something that a command needs and that a Config does not allow: see Learn.
type Need struct {
	// Kind is RefusedRead (see the host's file at a path), RefusedWrite (write to it in place), RefusedUnix
	// (connect to a unix socket) or RefusedConnect (a rule of the network).
	Kind RefusalKind `json:"kind"`
	// Target is an absolute path, or, for the network, a rule: see netpolicy.Parse.
	Target string `json:"target"`
	// Program is the first program that needed it, as in Refusal. Empty: unknown.
	Program string `json:"program,omitempty"`
	// Why says for people what refused it. Empty: it was among LearnOptions.Given.
	Why string `json:"why,omitempty"`
}

// needs are the kinds, with the flags of nsrun run that allow them, and the verb for people.
var needs = [...]struct {
	kind       RefusalKind
	flag, deed string
}{
	{RefusedRead, "--ro", "read"}, {RefusedWrite, "--rw", "written to"}, {RefusedUnix, "--allow-unix", "connected to"},
	{RefusedConnect, "--allow-net", "reached"},
}

// Flag returns the flag of nsrun run that allows the need, quoted for a shell. Empty: the Kind is invalid.
func (n Need) Flag() string {
	for _, k := range needs {
		if k.kind == n.Kind {
			return k.flag + " " + escape.Command([]string{n.Target})
		}
	}
	return ""
}

func (n Need) same(o Need) bool { return n.Kind == o.Kind && n.Target == o.Target }

// Comment says in one line which program needed it, and what refused it. Its control characters are escaped.
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

// LearnOptions are options of Learn. The zero LearnOptions begin with what the Config allows.
type LearnOptions struct {
	// Given are allowed from the beginning, without a question. The Lesson has only those that the command needs.
	// Nil: none.
	Given []Need
	// Ran is called after each run of the command, with what was allowed beyond the Config. Nil: no call.
	Ran func(r Result, opened []Need)
}

// A Lesson is what Learn found.
type Lesson struct {
	// Needs are what the command needs: it fails if one of them is missing. Nil: it succeeds with the Config as it
	// is.
	Needs []Need
	// Network says that the rules among the Needs replace those of the Config. False: the command needs those as
	// well.
	Network bool
	// Sockets says the same of unix sockets, and AllowUnix of the Config.
	Sockets bool
	// Without are the refusals of the last run, in which the command succeeded or, with a *LearnError, failed.
	Without []Refusal
	// Last is the Result of the last run, and Runs is the number of runs.
	Last Result
	Runs int
}

// LearnError says that a command failed although everything that could be allowed was allowed.
type LearnError struct {
	// Closed are the refusals that nothing can allow, or that were not approved. Nil: there are none, so the
	// sandbox is not why the command fails.
	Closed []Refusal
}

func (e *LearnError) Error() string {
	if len(e.Closed) == 0 {
		return "the command fails even with everything that it asks for: as far as nsrun can see, the sandbox is not the reason"
	}
	return "the command fails, and something that it was refused was not allowed: " + e.Closed[0].String()
}
