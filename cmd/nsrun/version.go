//go:build linux

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/prerun"
)

var versionVerb = usage.Verb{
	Name:  "version",
	Short: "print the version, and how this binary starts",
}

func cmdVersion(args []string) int {
	rest, status, ok := versionVerb.Parse(args, noFlags)
	switch {
	case !ok:
		return status
	case len(rest) > 0:
		return console.Fail(usage.Errorf("version", "takes no arguments"))
	}
	v, rev := "devel", ""
	if bi, ok := debug.ReadBuildInfo(); ok {
		if bi.Main.Version != "" && bi.Main.Version != "(devel)" {
			v = bi.Main.Version
		}
		for _, s := range bi.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				rev = " " + s.Value[:12]
			}
		}
	}
	start := "in main"
	if prerun.Entered() {
		start = "before the Go runtime"
	}
	return console.PrintText(fmt.Sprintf("nsrun %s%s (%s, starts %s)\n", v, rev, runtime.Version(), start))
}
