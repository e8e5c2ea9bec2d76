package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/features"
)

// doctor tells what this machine can do, and what to do about the rest. Its exit
// status is 1 where commands cannot be run in a sandbox at all.
func doctor(args []string) int {
	var asJSON bool
	rest, status, ok := parseVerb("doctor", args, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) })
	if !ok {
		return status
	}
	if len(rest) > 0 {
		return fail(&usageError{"doctor", "takes no arguments"})
	}
	list := features.Probe()
	for _, f := range list {
		if f.Required && f.Status != features.Yes {
			status = 1
		}
	}
	if asJSON {
		return max(status, printJSON(list))
	}
	for _, f := range list {
		fmt.Fprintf(os.Stdout, "%-8s %-24s %s\n", f.Status, f.Name, f.For)
		if f.Status != features.Yes {
			if f.Why != "" {
				fmt.Fprintf(os.Stdout, "%9s%s\n", "", f.Why)
			}
			if f.Remedy != "" {
				fmt.Fprintf(os.Stdout, "%9s%s\n", "", f.Remedy)
			}
		}
	}
	return status
}
