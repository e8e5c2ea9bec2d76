//go:build linux

package main

import (
	"flag"
	"fmt"
	"strings"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/near"
)

// noFlags is for verbs that have none but -h.
func noFlags(*flag.FlagSet) {}

func cmdHelp(args []string) int {
	args, status, ok := helpVerb.Parse(args, noFlags)
	var b strings.Builder
	switch {
	case !ok:
		return status
	case len(args) == 0:
		b.WriteString("usage: nsrun VERB …\n       nsrun [BWRAP OPTIONS] [--] COMMAND [ARG…]\n\n")
		for _, v := range verbs {
			fmt.Fprintf(&b, "  %-10s %s\n", v.Name, v.Short)
		}
		b.WriteString("\nnsrun help VERB explains a verb, nsrun help presets lists the presets, and nsrun --help lists bubblewrap's options.\n")
		return console.PrintText(b.String())
	}
	if args[0] == "presets" {
		return printPresets()
	}
	if v := verbOf(args[0]); v != nil {
		return v.Help()
	}
	return console.Fail(usage.Errorf("help", "no verb %s%s", escape.Quote(args[0]), near.DidYouMean(nearVerb(args[0]))))
}

// printPresets lists the presets, with the rules of those that have a network.
func printPresets() int {
	var b strings.Builder
	b.WriteString("nsrun run --preset NAME,NAME: several apply together.\n\n")
	for _, p := range nsrunlib.Presets() {
		fmt.Fprintf(&b, "  %-15s %s\n", p, p.Summary())
		for _, r := range p.Rules() {
			fmt.Fprintf(&b, "  %-15s   --allow-net %s\n", "", r)
		}
	}
	return console.PrintText(b.String())
}
