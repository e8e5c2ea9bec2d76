//go:build linux

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/project"
)

var whyVerb = usage.Verb{
	Name: "why", Args: "[flags] WHAT…",
	Short: "explain what a command could do with a path, a socket or a host",
	Long: `Takes the flags of nsrun run. Runs nothing, and looks up no name. Prints for each WHAT
whether a command could read it, write to it or connect to it, what refuses that, and
which flag would allow it. WHAT is a path if it exists here, contains a slash (./NAME), or
contains neither a dot nor a colon; @NAME is an abstract socket; anything else is a host
or a URL. docs/json.md of the source tree lists the keys of JSON.`,
	Examples: `nsrun why ~/.ssh/config www.example.org:443 --allow-net '*.example.org'`,
	Flags:    func(fs *flag.FlagSet) { policyFlags(fs, &runOptions{}, new(bool)) },
}

func cmdWhy(args []string) int {
	o, asJSON := &runOptions{}, false
	if err := parseRun(&whyVerb, args, o, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) }); err != nil {
		return whyVerb.Fail(err)
	}
	if o.shellSet {
		return whyVerb.Fail(usage.Errorf("why", "takes no -c: it runs nothing"))
	}
	subjects := o.command
	if len(subjects) == 0 {
		return whyVerb.Fail(usage.Errorf("why", "a path or a host is missing"))
	}
	o.command = []string{"true"}
	r := &runner{o: o, registry: project.Open(project.Options{})}
	defer r.close()
	return r.why(subjects, asJSON)
}

// why says what the command could do with some paths, sockets or hosts.
func (r *runner) why(subjects []string, asJSON bool) int {
	c, q, err := r.request()
	if err != nil {
		return console.Fail(r.typed(err))
	}
	if c.Sandbox == nsrunlib.SandboxDisabled {
		console.Say("NO SANDBOX: it is disabled, so nothing of the following applies")
	}
	lib := nsrunlib.NewRunner(c)
	list := make([]nsrunlib.Finding, 0, len(subjects))
	for _, word := range subjects {
		subject, err := subjectOf(word)
		if err != nil {
			return console.Fail(err)
		}
		f, err := lib.Why(context.Background(), q, subject)
		if err != nil {
			return console.Fail(r.typed(err))
		}
		r.o.withoutLocked(f.Denied)
		if f.Denied == nil {
			f.Denied = []nsrunlib.Refusal{}
		}
		list = append(list, f)
	}
	if asJSON {
		return console.PrintJSON(list)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, f := range list {
		printFinding(out, f)
	}
	if err := out.Flush(); err != nil {
		return console.Fail(err)
	}
	return 0
}

// subjectOf returns the subject that a word means: an absolute path, a socket without one, or a host.
func subjectOf(word string) (string, error) {
	if scheme, _, ok := strings.Cut(word, "://"); ok {
		u, err := url.Parse(word)
		if err != nil || u.Hostname() == "" {
			return "", usage.Errorf("why", "%s: not a URL with a host", escape.Quote(word))
		}
		if port := map[string]string{"http": "80", "https": "443", "ssh": "22", "git": "9418"}[scheme]; u.Port() == "" && port != "" {
			return strings.TrimSuffix(u.Host, ":") + ":" + port, nil
		}
		return u.Host, nil
	}
	switch _, err := os.Lstat(word); {
	case strings.HasPrefix(word, nsrunlib.AbstractSockets):
		return word, nil
	case word == "":
		return "", usage.Errorf("why", "a path or a host is missing")
	case err == nil, strings.Contains(word, "/"), !strings.ContainsAny(word, ".:"):
	default:
		return word, nil
	}
	if rest, ok := strings.CutPrefix(word, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(os.Getenv("HOME"), rest), nil
	}
	return fromHere(word)
}

// printFinding prints what was found for people.
func printFinding(w *bufio.Writer, f nsrunlib.Finding) {
	fmt.Fprintf(w, "%s", escape.Quote(f.Target))
	if f.Path != "" && f.Path != f.Target {
		fmt.Fprintf(w, ", which is %s", escape.Quote(f.Path))
	}
	if f.Text != "" {
		fmt.Fprintf(w, ": %s", f.Text)
	}
	fmt.Fprintln(w)
	line := func(what, yes, no string, kinds ...nsrunlib.RefusalKind) {
		fmt.Fprintf(w, "  %-8s ", what)
		text, flag := yes, ""
		for _, d := range f.Denied {
			for _, kind := range kinds {
				if d.Kind == kind {
					text, flag = "no", d.Flag
				}
			}
		}
		if text == "" {
			text = no
		}
		if flag != "" {
			text += " (try: " + flag + ")"
		}
		fmt.Fprintln(w, text)
	}
	if f.Kind != "path" {
		yes := ""
		if f.Connect {
			yes = "yes"
		}
		line("connect", yes, "no", nsrunlib.RefusedConnect, nsrunlib.RefusedUnix)
		return
	}
	readable := ""
	if f.Read {
		readable = "yes"
	}
	missing := "no"
	if !f.Exists {
		missing = "nothing is there on this host"
	}
	line("read", readable, missing, nsrunlib.RefusedRead)
	line("write", map[string]string{
		"apart": "yes, kept apart until it is committed", "in place": "yes, on this host at once", "temporary": "yes, and gone when the command ends", "home layer": "yes, kept in the home layer of the project",
	}[f.Write], "no", nsrunlib.RefusedWrite)
}
