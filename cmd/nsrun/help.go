//go:build linux

package main

import (
	"flag"
	"fmt"

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
	switch {
	case !ok:
		return status
	case len(args) == 0:
		fmt.Print("usage: nsrun VERB …\n       nsrun [BWRAP OPTIONS] [--] COMMAND [ARG…]\n\n")
		for _, v := range verbs {
			fmt.Printf("  %-10s %s\n", v.Name, v.Short)
		}
		fmt.Print("\nnsrun help VERB says more, and nsrun help presets. nsrun --help lists the options that bwrap has too.\n")
		return 0
	}
	if args[0] == "presets" {
		printPresets()
		return 0
	}
	if v := verbOf(args[0]); v != nil {
		v.Help()
		return 0
	}
	return console.Fail(usage.Errorf("help", "no verb %s%s", escape.Quote(args[0]), near.DidYouMean(nearVerb(args[0]))))
}

// printPresets lists the presets, with the rules of those that have a network.
func printPresets() {
	fmt.Print("nsrun run --preset NAME,NAME: several apply together.\n\n")
	for _, p := range nsrunlib.Presets() {
		fmt.Printf("  %-15s %s\n", p, p.Summary())
		for _, r := range p.Rules() {
			fmt.Printf("  %-15s   --allow-net %s\n", "", r)
		}
	}
}
