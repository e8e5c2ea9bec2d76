package nsrun

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
)

// Request is one command.
type Request struct {
	// Command is run by /bin/sh -c.
	Command string
	// Args are a program and its arguments, run as they are, instead of Command. A script that does not begin with
	// "#!" is run by /bin/sh, as shells do.
	Args []string

	// WorkingDir is a directory of the sandbox. Relative ones are relative to the project; "playground" is
	// $HOME/playground; "~" and "$HOME" at the beginning are the home directory. Empty: the project, without one
	// the playground, without either "/".
	WorkingDir string
	// Network asks for the host's network, which needs an Approver's yes every time. False: Config.Net decides.
	Network bool
	// LearnNet lets the command reach everything, and lists in Result.Network the rules that would
	// have been enough in Config.Net. It needs the same yes. False: the rules hold.
	LearnNet bool
	// Paths asks for more paths, such as those of Refusal.PathRule. Those that allow something need an Approver's
	// yes. They are not patterns, and the approved path has no symbolic links. "/", and paths in /proc, /sys and
	// /dev, are errors. Nil: none.
	Paths []Rule

	// Env is added to the environment; each must have the form "K=V". Nil: nothing.
	Env []string
	// Timeout ends the command after this time, if Config.Timeout is not shorter. Zero: Config.Timeout.
	Timeout time.Duration

	// Limits of this command, where they are stricter than Config.Limits. Zero: Config.Limits.
	Limits Limits

	// Stdin is the command's standard input. The command need not read it; a Read that does not
	// return keeps one goroutine, and nothing else. After an error of a Read the command's input
	// ends, and a Notice says so. Nil: /dev/null.
	Stdin io.Reader
	// Stdout and Stderr get all output as it comes, in addition to the Result. A slow writer slows the command
	// down; after an error a writer gets nothing more. If both are the same writer, only one goroutine at a time
	// writes to it. Nil: only the Result has the output.
	Stdout, Stderr io.Writer
	// Merge makes standard error the same pipe as standard output, so that Result.Stdout has all
	// output in the order in which it was written. False: they are two pipes.
	Merge bool
	// Passthrough gives Stdin, Stdout and Stderr, which must be *os.File or nil, to the
	// command itself: a terminal stays one, and the Result has no output. False: pipes.
	Passthrough bool
}

// copied is q with slices of its own.
func (q Request) copied() Request {
	q.Args, q.Paths, q.Env = slices.Clone(q.Args), slices.Clone(q.Paths), slices.Clone(q.Env)
	return q
}

// args are the words that are executed.
func (q *Request) args() ([]string, error) {
	if err := withoutNUL(*q); err != nil {
		return nil, &Error{Op: "run", Err: err}
	}
	for _, kv := range q.Env {
		// A name alone would pass on what SafeEnv removes; only Config may do that.
		if name, _, assigned := strings.Cut(kv, "="); name == "" || !assigned {
			return nil, &Error{Op: "run", Err: fmt.Errorf("the environment has %s, which is not K=V", escape.Quote(kv))}
		}
	}
	switch {
	case q.Command != "" && len(q.Args) > 0:
		return nil, &Error{Op: "run", Err: errors.New("a request has Command or Args, not both")}
	case q.Timeout < 0:
		return nil, &Error{Op: "run", Err: errors.New(errNegative)}
	case q.Limits != (Limits{}) && q.Limits.Check() != nil:
		return nil, &Error{Op: "run", Err: q.Limits.Check()}
	case q.Network && q.LearnNet:
		return nil, &Error{Op: "run", Err: errors.New("the host's network has no rules to learn")}
	case len(q.Args) > 0:
		return q.Args, nil
	case q.Command != "":
		return []string{"/bin/sh", "-c", q.Command}, nil
	}
	return nil, &Error{Op: "run", Err: errors.New("no command was given")}
}

// text is the command for people, with what the request adds to its environment. Nothing in it acts on a terminal, and
// escaped characters differ from text that looks like them.
func (q *Request) text() string {
	var b strings.Builder
	for _, kv := range q.Env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString(escape.Exact(name) + "=" + escape.Command([]string{value}) + " ")
	}
	if q.Command != "" {
		b.WriteString(escape.Exact(q.Command))
	} else {
		b.WriteString(escape.Command(q.Args))
	}
	return b.String()
}
