package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/overlay"
)

const showHelp = `SESSION is an id that nsrun ls lists, the beginning of one, or last, which is
also meant where none is named. A stands for added, M for modified, D for
deleted, T for another type of file. What is modified but for the content, and
what is special (setuid, a device), is said in parentheses.
The keys of JSON are listed in docs/json.md of the source tree.`

// shownSession is what `show --json` prints. The keys are stable.
type shownSession struct {
	sessionReport
	Changes []changeReport `json:"changes"`
}

func show(args []string) int {
	var asJSON bool
	rest, status, ok := parseVerb("show", args, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) })
	if !ok {
		return status
	}
	id, rest := sessionArg(rest)
	if len(rest) > 0 {
		return fail(&usageError{"show", "takes one session"})
	}
	tellRecovered()
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	var changes []overlay.Change
	if s.State() == overlay.Kept {
		for c, err := range s.Changes() {
			if err != nil {
				// The rest is shown all the same.
				status = fail(err)
				continue
			}
			changes = append(changes, c)
		}
	}
	in := s.Info()
	r := describe(in)
	if n, err := in.Usage(context.Background()); err == nil {
		r.Size = &n
	}
	if asJSON {
		return max(status, printJSON(shownSession{r, changeReports(changes)}))
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "session  %s\nstate    %s\nbegan    %s (%s)\nsize     %s\n",
		r.ID, r.state(), r.Created.Local().Format("2006-01-02 15:04:05"), ago(r.Created), r.size())
	fmt.Fprintf(out, "engine   %s\n", r.Engine)
	if r.On != "" {
		fmt.Fprintf(out, "on       %s\n", r.On)
	}
	for _, root := range r.Roots {
		fmt.Fprintf(out, "root     %s\n", quote(root))
	}
	fmt.Fprintf(out, "command  %s\n", quoteCommand(r.Command))
	if len(changes) > 0 {
		fmt.Fprintln(out)
		printChanges(out, "", changes, len(in.Roots) > 1)
	}
	if err := out.Flush(); err != nil {
		return fail(err)
	}
	return status
}
