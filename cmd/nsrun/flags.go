//go:build linux

package main

import (
	"errors"
	"flag"
)

// Flags that several verbs have.

func jsonFlag(fs *flag.FlagSet, to *bool)  { fs.BoolVar(to, "json", false, "print JSON") }
func quietFlag(fs *flag.FlagSet, to *bool) { fs.BoolVar(to, "q", false, "say nothing on success") }

// errEmpty is the error of a value that is empty: that of a script whose variable is not set.
var errEmpty = errors.New("empty value")

// listFlag collects the values of a flag that may be repeated.
type listFlag []string

func (f *listFlag) String() string { return "" }

func (f *listFlag) Set(s string) error {
	if s == "" {
		return errEmpty
	}
	*f = append(*f, s)
	return nil
}

// sessionValue takes the id of a session. An empty id is an error: that of a script whose variable is not set.
func sessionValue(to *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return errors.New("empty id")
		}
		*to = s
		return nil
	}
}

func allowExecFlag(fs *flag.FlagSet, to *bool) {
	fs.BoolVar(to, "allow-exec", false, "also commit files that would run later, such as hooks and editor settings")
}

func allowUnsyncedFlag(fs *flag.FlagSet, to *bool) {
	fs.BoolVar(to, "allow-unsynced", false, "commit although files may be cut off, because the machine was restarted before the session was on disk")
}

func allowSpecialFlag(fs *flag.FlagSet, to *bool) {
	fs.BoolVar(to, "allow-special", false, "also commit setuid files, device nodes, FIFOs and the like")
}
