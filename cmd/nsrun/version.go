//go:build linux

package main

import (
	"fmt"
	"runtime/debug"
)

var versionVerb = Verb{
	Name:  "version",
	Short: "print the version",
}

func version(args []string) int {
	if len(args) > 0 {
		return fail(wrongUsage("version", "takes no arguments"))
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
	fmt.Printf("nsrun %s%s\n", v, rev)
	return 0
}
