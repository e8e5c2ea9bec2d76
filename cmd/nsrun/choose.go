//go:build linux

package main

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/overlay"
)

// A session is named by its id, the beginning of it, or "last", the newest. Default: the
// newest session of the current project, and never another project's.

// sessionArg splits off the session that the first argument names, if it names
// one. Where none does it is the newest of the project that we are in, or empty.
func sessionArg(args []string) (id string, rest []string) {
	if len(args) > 0 {
		return args[0], args[1:]
	}
	return newestHere(func(overlay.Info) bool { return true }), nil
}

// errNoneHere is what is said where a session is to be decided about and none was named:
// another project's is not taken for it.
var errNoneHere = advice.With(errors.New("no session of this project"), "try: nsrun ls --all, and name one")

// errNoneLeft is what is said where no session has changes that can be discarded.
var errNoneLeft = advice.With(errors.New("nothing to discard: all changes of this project were committed or discarded already"), "try: nsrun ls")

// newestHere is the newest session of the project that we are in, of those that wanted
// takes, or empty.
func newestHere(wanted func(overlay.Info) bool) (id string) {
	eachHere(func(in overlay.Info) {
		if wanted(in) {
			id = in.ID
		}
	})
	return id
}

// eachHere calls f for the sessions of the project that we are in, the oldest first.
func eachHere(f func(overlay.Info)) {
	wd := here()
	for in, err := range overlay.List("") {
		if err == nil && isHere(in, wd) {
			f(in)
		}
	}
}

// isHere reports whether a session is of the project that the directory wd is in.
func isHere(in overlay.Info, wd string) bool {
	return wd != "" && slices.ContainsFunc(in.Roots, func(r overlay.Root) bool { return inside(wd, r.Path) })
}
