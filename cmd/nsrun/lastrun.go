//go:build linux

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay"
)

// For each root of a project, a file beside the sessions records the last command, whether it left a session or not: a
// verb that decides about changes, and gets no session, takes that of the last command. The file contains the session's
// id, and its modification time is the end of the command.

// lastRunName is the directory of these files in the state directory.
const lastRunName = "last-run"

// lastRunFile opens the file of a root. The whole path of the directory must be safe, as that of the sessions:
// otherwise another user could redirect it.
func lastRunFile(root string, flags int) (*os.File, error) {
	sessions, err := overlay.DefaultDir()
	if err != nil {
		return nil, err
	}
	create := flags&os.O_CREATE != 0
	if _, err := os.Lstat(sessions); err != nil && create {
		return nil, err // where there are no sessions none is taken for another
	}
	dir, _, err := owndir.Open(filepath.Join(sessions, lastRunName), create)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	sum := githash.SumSHA256([]byte(root))
	name := hex.EncodeToString(sum[:16])
	return sys.OwnFile(dir, name, flags)
}

func lastRunFiles(roots []string) (list []*os.File) {
	for _, root := range roots {
		f, err := lastRunFile(root, os.O_RDWR|os.O_CREATE)
		if err != nil {
			break
		}
		list = append(list, f)
	}
	return list
}

// noteRun records in the files that a command ran on their roots, and left the session id; empty: it left none. If this
// cannot be written, the newest session counts as that of the last command.
func noteRun(files []*os.File, id string) {
	note := []byte(id + "\n")
	for _, f := range files {
		// Written over where it is as long as before: to cut a file off is much work for some file systems.
		fi, err := f.Stat()
		if err == nil && fi.Size() != int64(len(note)) {
			err = f.Truncate(0)
		}
		if err == nil {
			_, _ = f.WriteAt(note, 0)
		}
		_ = f.Close()
	}
}

// lastRun returns the session that the last command on one of the roots left, and when that was. Not ok: unknown.
func lastRun(roots []overlay.Root) (id string, at time.Time, ok bool) {
	for _, root := range roots {
		f, err := lastRunFile(root.Path, os.O_RDONLY)
		if err != nil {
			continue
		}
		fi, err := f.Stat()
		if err == nil && fi.Mode().IsRegular() && fi.ModTime().After(at) {
			if data, err := io.ReadAll(io.LimitReader(f, 256)); err == nil {
				// Without its newline, the id is not complete: the disk was full.
				id, ok = strings.CutSuffix(string(data), "\n")
				at = fi.ModTime()
			}
		}
		_ = f.Close()
	}
	return id, at, ok
}

// unnoted reports whether a session was created after the last command that was noted. It was not if it is of the
// future: then the clock was set back since.
func unnoted(created, at, now time.Time) bool { return created.After(at) && !created.After(now) }

// decidable returns the session for a verb that gets none: that of the last command. It returns an older one only after
// a yes at the terminal.
func decidable(verb string) (id string, err error) {
	kept := map[string]bool{}
	var newest overlay.Info
	err = eachHere(func(in overlay.Info) {
		if id = in.ID; in.State == overlay.Kept {
			kept[id], newest = true, in
		}
	})
	switch {
	case err != nil:
		return "", err
	case newest.ID == "" && verb == "discard":
		return "", errNoneLeft // one that is decided about could be discarded once more
	case newest.ID == "":
		return id, nil // for the error that says what became of it
	case newest.Busy:
		return newest.ID, nil // a command is being run
	}
	last, at, ok := lastRun(newest.Roots)
	switch {
	case !ok || last == newest.ID || unnoted(newest.Created, at, time.Now()):
		return newest.ID, nil
	case kept[last]:
		return last, nil
	}
	what := "changed nothing"
	if last != "" {
		what = "is decided about"
	}
	what = fmt.Sprintf("the last command %s; before it, %s, session %s: %s", what, console.Ago(newest.Created), newest.ID, escape.Command(newest.Command))
	if console.IsTerminal(os.Stdin) && console.IsTerminal(os.Stderr) {
		console.Say("%s", what)
		if answer := console.Ask(verb + " that session? [y/N]"); answer == "y" || answer == "yes" {
			return newest.ID, nil
		}
		return "", errors.New("nothing was done")
	}
	return "", advice.With(errors.New(what), "try: nsrun "+verb+" "+newest.ID)
}

// openDecided opens the session that a verb decides about: that which the first argument names, or the last one.
func openDecided(verb string, args []string) (s *overlay.Session, rest []string, err error) {
	var id string
	if len(args) > 0 {
		id, rest, err = sessionArg(args)
	} else {
		id, err = decidable(verb)
	}
	if err == nil {
		s, err = openKept(id)
	}
	return s, rest, err
}
