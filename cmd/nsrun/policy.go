//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/limits"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/project"
)

var policyVerb = usage.Verb{
	Name: "policy", Args: "[flags] [--] [COMMAND [ARG…]]",
	Short: "show what a command would see, write to and reach",
	Long: `Takes the flags of nsrun run, and runs nothing. Prints what a command would see, where it
could write and what happens to those changes, what is hidden, what it could reach, and
which variables are removed. Without COMMAND, prints what holds for any command. nsrun run
--explain=policy does the same; nsrun run --explain prints the system calls instead.
docs/json.md of the source tree lists the keys of JSON.`,
	Examples: `nsrun policy --allow-net '*.example.org' -- npm ci`,
	Flags:    func(fs *flag.FlagSet) { policyFlags(fs, &runOptions{}, new(bool)) },
}

func policyFlags(fs *flag.FlagSet, o *runOptions, asJSON *bool) {
	runFlags(fs, o)
	jsonFlag(fs, asJSON)
}

// policyReport is what `policy --json` prints. The keys are stable.
type policyReport struct {
	nsrunlib.View
	After     string `json:"after"`      // what becomes of what is kept apart: ask, keep, commit, discard; empty: nothing is
	TimeoutMS int64  `json:"timeout_ms"` // zero: there is none
	// Limits are those that flags and files set; whether this host can enforce them is known only when a command
	// starts.
	Limits []policyLimit `json:"limits"`
	text   []string      // of the limits
}

type policyLimit struct {
	Name  limits.Name `json:"name"`
	Value float64     `json:"value"`
}

func cmdPolicy(args []string) int {
	o, asJSON := &runOptions{}, false
	if err := parseRun(&policyVerb, args, o, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) }); err != nil {
		return policyVerb.Fail(err)
	}
	any := len(o.command) == 0
	if any {
		o.command = []string{"true"}
	}
	r := &runner{o: o, registry: project.Open(project.Options{})}
	defer r.close()
	return r.policy(any, asJSON)
}

// policy prints what the command, or any command, would see.
func (r *runner) policy(any, asJSON bool) int {
	var v nsrunlib.View
	c, q, err := r.request()
	if err == nil {
		v, err = nsrunlib.NewRunner(c).View(context.Background(), q)
	}
	if err != nil {
		return console.Fail(r.typed(err))
	}
	if any {
		v.Command = nil
	}
	p := policyReport{View: v, TimeoutMS: v.Timeout.Milliseconds(), After: r.o.after()}
	if len(v.Apart) == 0 {
		p.After = ""
	}
	p.Limits = []policyLimit{}
	for _, l := range limits.Limits(r.o.limits).List() {
		p.Limits, p.text = append(p.Limits, policyLimit{l.Name, l.Value}), append(p.text, l.String())
	}
	if asJSON {
		for _, list := range [...]*[]string{&p.Command, &p.Apart, &p.Writable, &p.Private, &p.ReadOnly, &p.Hidden, &p.HiddenSockets, &p.Rules, &p.Sockets, &p.Credentials, &p.Devices, &p.Presets, &p.Removed, &p.Set} {
			if *list == nil {
				*list = []string{}
			}
		}
		if p.Notices == nil {
			p.Notices = []nsrunlib.Notice{}
		}
		if p.Publish == nil {
			p.Publish = []uint16{}
		}
		return console.PrintJSON(p)
	}
	var text bytes.Buffer
	for most := policyLines; ; most-- {
		text.Reset()
		p.print(&text, most)
		if most == 1 || bytes.Count(text.Bytes(), []byte("\n")) <= policyLines {
			break
		}
	}
	return console.PrintText(text.String())
}

const (
	policyWidth = 100 // columns of printed lists
	policyLines = 40  // at most; long lists are shortened
)

// asItIs returns its argument, for lists of strings.
func asItIs(s string) string { return s }

// printSection prints a title and a list, wrapped, unless the list is empty.
func printSection(w io.Writer, most int, title string, list []string, text func(string) string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "%s\n", title)
	line, lines := " ", 1
	for i, item := range list {
		item = text(item)
		if i < len(list)-1 {
			item += ","
		}
		if len(line)+1+len(item) > policyWidth && line != " " {
			if lines++; lines > most {
				fmt.Fprintf(w, "%s and %d more (--json has them)\n", line, len(list)-i)
				return
			}
			fmt.Fprintf(w, "%s\n", line)
			line = " "
		}
		line += " " + item
	}
	fmt.Fprintf(w, "%s\n", line)
}

func (p *policyReport) printNetwork(section func(title string, list []string, text func(string) string)) {
	const none = "none: its own loopback only"
	network := map[string]string{
		"none": none, "host": "the host's, once you have said yes", "all": "everything, once you have said yes; rules are printed then",
	}[p.Network]
	if network == "" && len(p.Rules) == 0 {
		network = none
	}
	if network != "" {
		section("network", []string{network}, asItIs)
		return
	}
	section("network, only", p.Rules, escape.Quote)
}

// limits returns sentences about what limits the command.
func (p *policyReport) limits() []string {
	rights := "no privileges, and no new ones"
	if p.OwnIDs {
		rights = "root's rights to what is listed above, by ids of its own; to the rest of the host it is nobody"
	}
	list := append([]string{rights, "it ends with all that it started"}, p.text...)
	if p.Owners {
		list[0] = "root's rights in the session, and no privileges elsewhere"
	}
	if p.UserNamespaces {
		list = append(list, "it can make user namespaces, in which all of this holds")
	}
	if p.Timeout > 0 {
		list = append(list, "it is ended after "+p.Timeout.String())
	}
	return list
}

// print prints it for people, with at most most lines of each list.
func (p *policyReport) print(w io.Writer, most int) {
	home := os.Getenv("HOME")
	const rest = "everything that is not listed here"
	short := func(path string) string {
		if path == rest {
			return path
		}
		if rest, ok := strings.CutPrefix(path, home+"/"); ok && home != "/" && home != "" {
			path = "~/" + rest
		}
		return escape.Quote(path)
	}
	section := func(title string, list []string, text func(string) string) { printSection(w, most, title, list, text) }
	command := "any command"
	if len(p.Command) > 0 {
		command = escape.Command(p.Command)
	}
	fmt.Fprintf(w, "%s, in %s\n", command, short(p.Dir))
	switch p.Sandbox {
	case nsrunlib.SandboxDisabled.String():
		fmt.Fprintf(w, "NO SANDBOX: it is disabled, and nothing below holds\n")
	case nsrunlib.SandboxPreferred.String():
		fmt.Fprintf(w, "if this host allows no sandbox, it runs without one, and nothing below holds\n")
	}
	section("presets", p.Presets, escape.Quote)
	section("writable, and kept apart: "+map[string]string{
		"ask": "you are asked afterwards (without a terminal: kept)", "keep": "kept until you decide",
		"commit": "committed afterwards, if the command succeeds", "discard": "thrown away afterwards",
	}[p.After], p.Apart, short)
	homes := slices.DeleteFunc([]string{p.Home, p.OtherHome}, func(home string) bool { return home == "" })
	section("writable, and kept for the next commands of the project (nsrun home)", homes, func(home string) string {
		if home == p.Home {
			return "~"
		}
		return escape.Quote(home)
	})
	section("writable, at once", p.Writable, short)
	section("writable, empty at the start, gone at the end", p.Private, short)
	section("readable", p.ReadOnly, func(path string) string {
		if path == "/" {
			return "/ (" + rest + ")"
		}
		return short(path)
	})
	hidden := p.Hidden
	if !slices.Contains(p.ReadOnly, "/") {
		hidden = append(slices.Clip(hidden), rest)
	}
	section("hidden", hidden, short)
	section("hidden sockets", p.HiddenSockets, short)
	p.printNetwork(section)
	ports := make([]string, len(p.Publish))
	for i, port := range p.Publish {
		ports[i] = "127.0.0.1:" + strconv.Itoa(int(port))
	}
	section("servers that this host can reach", ports, escape.Quote)
	section("sockets of this host that it can connect to", p.Sockets, short)
	section("devices of this host that it can use", p.Devices, short)
	section("hosts whose credentials it can use but not read", p.Credentials, escape.Quote)
	section("variables that it does not have", p.Removed, escape.Quote)
	section("variables that are set", p.Set, escape.Quote)
	section("limits", p.limits(), asItIs)
	for _, notice := range p.Notices {
		fmt.Fprintf(w, "note: %s\n", escape.Printable(notice.Text))
	}
}
