//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

func version(args []string) int {
	if len(args) > 0 {
		return fail(&usageError{"version", "takes no arguments"})
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

func help(args []string) int {
	if len(args) == 0 {
		fmt.Print("usage: nsrun VERB …\n       nsrun [BWRAP OPTIONS] [--] COMMAND [ARG…]\n\n")
		for _, v := range verbs {
			fmt.Printf("  %-10s %s\n", v.name, v.short)
		}
		fmt.Print("\nnsrun help VERB says more. nsrun --help lists the options that bwrap has too.\n")
		return 0
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		fmt.Printf("usage: nsrun %s\n\n%s\n", strings.TrimRight(v.name+" "+v.usage, " "), v.short)
		if v.long != "" {
			fmt.Print("\n" + v.long + "\n")
		}
		if v.flags != nil {
			fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
			v.flags(fs)
			printFlags(fs)
		}
		return 0
	}
	return fail(&usageError{"help", "no verb " + quote(args[0]) + didYouMean(nearVerb(args[0]))})
}

const runHelp = `The command sees the host's files, read-only, without secrets; the project
is writable behind an overlay; /tmp, /dev and /proc are private; there is no
network. What it changed is kept as a session until it is committed or
discarded. The exit status is the command's, or 124 (timed out), 125 (nsrun
failed), 126 (cannot execute), 127 (not found), 128+n (signal n).`

const diffHelp = `Of everything, or of what is at and below the paths, which are absolute or
relative to the project; they may be patterns (*, ?, [a-z], and ** for any
number of directories). Deletions come first in --stat and --name-status; what
was moved follows them (R, and how many percent are equal).

nsrun diff --patch | git apply, at the top of another copy of the project, makes
there what the session made here: contents, binary ones too, symbolic links and
whether files can be executed. (Below the top of a git work tree git apply needs
--directory.) What git has no words for (empty directories, named pipes, other
modes, owners, attributes) is said on standard error. Times are not in the patch.`

// printFlags prints flags the way they are typed.
func printFlags(fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		arg, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(os.Stdout, "  %-22s %s\n", strings.TrimRight(dashed(f.Name)+" "+arg, " "), usage)
	})
}
