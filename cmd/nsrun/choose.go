//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// A session is named by its id, the beginning of it, or "last". "last", which is also the default, is the newest
// session of the current project, never another project's.

// sessionArg splits off the first argument if it names a session. Otherwise the session is the newest of the current
// project.
func sessionArg(args []string) (id string, rest []string, err error) {
	if len(args) == 0 {
		id, err = newestHere()
		return id, nil, err
	}
	id, err = sessionNamed(args[0])
	return id, args[1:], err
}

// sessionNamed returns the session that a word means; the word may be "last".
func sessionNamed(word string) (string, error) {
	if word != "last" {
		return word, nil
	}
	return newestHere()
}

// errNoneHere is the error if a verb that changes a session gets none, and the current project has none: it never takes
// another project's.
var errNoneHere = advice.With(errors.New("no session of this project"), "try: nsrun ls --all, and name one")

// errNoneLeft is the error if no session has changes that can be discarded.
var errNoneLeft = advice.With(errors.New("nothing to discard: all changes of this project were committed or discarded already"), "try: nsrun ls")

// openKept opens a session that has changes to decide about.
func openKept(id string) (*overlay.Session, error) {
	s, err := overlay.Open("", id)
	if err != nil {
		return nil, err
	}
	if err := ended(s); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// ended is the error of a verb that needs a session's changes, if they were committed or discarded: which of the two,
// and how to see them or have them back.
func ended(s *overlay.Session) error {
	state, hint := s.State(), "try: nsrun ls"
	switch {
	case state != overlay.Committed && state != overlay.Discarded:
		return nil
	case s.Info().Undo == overlay.NoDeed:
	case state == overlay.Committed:
		hint = "try: nsrun log -p --session " + s.ID() + ", or nsrun undo " + s.ID()
	default:
		hint = "try: nsrun undo " + s.ID()
	}
	return advice.With(fmt.Errorf("the changes of session %s were %s already", s.ID(), state), hint)
}

// newestHere is the newest session of the current project.
func newestHere() (id string, err error) {
	err = eachHere(func(in overlay.Info) { id = in.ID })
	return id, err
}

// eachHere calls f for the sessions of the current project, oldest first: those of the innermost project around the
// working directory that has sessions, but not of one that encloses the git work tree. If there is none, the error says
// so, or why sessions cannot be listed.
func eachHere(f func(overlay.Info)) error {
	wd, err := here()
	if err != nil {
		return err
	}
	inner := ""
	if wd != "" {
		inner, _ = links.WorkTree(wd)
	}
	var list []overlay.Info
	none := errNoneHere
	for in, err := range overlay.List("") {
		switch {
		case err != nil && in.ID == "": // else it is one session that cannot be read
			none = err
		case err != nil:
		case isHere(in, wd):
			switch root := rootAround(in, wd); {
			case len(root) > len(inner):
				inner, list = root, []overlay.Info{in}
			case len(root) == len(inner):
				list = append(list, in)
			}
		}
	}
	for _, in := range list {
		f(in)
	}
	if len(list) > 0 {
		return nil
	}
	return none
}

// rootAround is the innermost root of a session around the directory wd.
func rootAround(in overlay.Info, wd string) (root string) {
	for _, r := range in.Roots {
		if paths.Inside(wd, r.Path) && len(r.Path) > len(root) {
			root = r.Path
		}
	}
	return root
}

// isHere reports whether a session belongs to the project around the directory wd.
func isHere(in overlay.Info, wd string) bool {
	return wd != "" && slices.ContainsFunc(in.Roots, func(r overlay.Root) bool { return paths.Inside(wd, r.Path) })
}
