//go:build linux

package main

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// A session is named by its id, the beginning of it, or "last". That, and the default, is the
// newest session of the current project, and never another project's.

// sessionArg splits off the session that the first argument names, if it names
// one. Where none does it is the newest of the project that we are in.
func sessionArg(args []string) (id string, rest []string, err error) {
	if len(args) == 0 {
		id, err = newestHere()
		return id, nil, err
	}
	id, err = sessionNamed(args[0])
	return id, args[1:], err
}

// sessionNamed is the session that a word means, where it may be "last".
func sessionNamed(word string) (string, error) {
	if word != "last" {
		return word, nil
	}
	return newestHere()
}

// errNoneHere is what is said where a session is to be decided about and none was named:
// another project's is not taken for it.
var errNoneHere = advice.With(errors.New("no session of this project"), "try: nsrun ls --all, and name one")

// errNoneLeft is what is said where no session has changes that can be discarded.
var errNoneLeft = advice.With(errors.New("nothing to discard: all changes of this project were committed or discarded already"), "try: nsrun ls")

// newestHere is the newest session of the project that we are in.
func newestHere() (id string, err error) {
	err = eachHere(func(in overlay.Info) { id = in.ID })
	return id, err
}

// eachHere calls f for the sessions of the project that we are in, the oldest first. If there is
// none, the error says so, or why they cannot be listed.
func eachHere(f func(overlay.Info)) error {
	wd, none := here(), errNoneHere
	found := false
	for in, err := range overlay.List("") {
		switch {
		case err != nil && in.ID == "": // else it is one session that cannot be read
			none = err
		case err != nil:
		case isHere(in, wd):
			found = true
			f(in)
		}
	}
	if found {
		return nil
	}
	return none
}

// isHere reports whether a session is of the project that the directory wd is in.
func isHere(in overlay.Info, wd string) bool {
	return wd != "" && slices.ContainsFunc(in.Roots, func(r overlay.Root) bool { return paths.Inside(wd, r.Path) })
}
