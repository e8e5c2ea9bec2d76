//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
)

// mostDenied is how many refusals are told of; the report has all.
const mostDenied = 10

// tellNetwork says what the command wanted to reach and might not, or with --learn-net
// what it reached.
func (r *runner) tellNetwork() {
	if r.o.learnNet {
		if len(r.network.Rules) == 0 {
			say("no rules are needed: nothing was reached")
			return
		}
		say("rules that would do:")
		for _, rule := range r.network.Rules {
			fmt.Fprintln(os.Stderr, "  --allow-net "+escape.Quote(rule))
		}
		return
	}
	if r.o.quiet {
		return
	}
	denied := r.network.Denied()
	for i, d := range denied {
		if i == mostDenied {
			if more := len(denied) - i; r.network.Omitted > 0 {
				say("%d more were denied, which --report has, and others that it only counts", more)
			} else {
				say("%d more were denied: --report has them all", more)
			}
			break
		}
		say("%s", deniedText(d))
	}
}

// deniedText is a line about something that was denied.
func deniedText(d netpolicy.Decision) string {
	text := "network: " + target(d) + " was denied"
	if d.Count > 1 {
		text += fmt.Sprintf(" (%d times)", d.Count)
	}
	if d.AllowWith != "" {
		text += " (try: " + d.AllowWith + ")"
	}
	return text
}

// target is what a decision is about.
func target(d netpolicy.Decision) string {
	host := escape.Quote(d.Host)
	switch {
	case d.Server:
		return "a server at " + d.Proto + " " + net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
	case d.Address == "":
		return d.Proto + " " + host
	case d.Port == 0 && d.Host != "":
		return d.Proto + " " + host + ", which is " + d.Address + ","
	case d.Host == "":
		return d.Proto + " " + net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
	}
	return d.Proto + " " + net.JoinHostPort(host, strconv.Itoa(int(d.Port))) + " at " + d.Address
}
