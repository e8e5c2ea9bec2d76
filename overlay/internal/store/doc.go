// Package store keeps sessions on disk. It opens the state directory, which has one directory for each session, with
// the session's data (Meta), its lock, a record of what a crash must not leave open, the layers below it, pairs of
// scratch directories, and the tmpfs of a session that cannot be kept on the disk's file system. And it opens what the
// caller owns but may not read (Opener).
//
// The package checks everything that it reads before it uses it as a path, a number or an index. Errors with a path are
// *fs.PathError; ErrBusy and ErrGone say why a session cannot be used.
//
// The package may import overlay/internal/tree, features, and the internal packages that open directories and run a
// process in a user namespace. It does not compare a session with its project, does not change a project, and decides
// nothing about changes.
//
// # What is on disk
//
//	$XDG_STATE_HOME/nsrun/sessions/<time>-<id>/
//	  session.json        roots, state, which transactions are done, what is settled
//	  last.json           the last command that used it; no change depends on it
//	  lock
//	  upper/ work/        overlay1, overlay2, …: one for each root
//	  base/ scratch/      the project's versions of text files, for merges; overlays of caches
//	  stood               only if other sessions were begun on this one
//	  packed/             the changes, if upper/ is not on this disk (package tree)
//	  mem                 only with a tmpfs: where the sandbox sees it
//	  doors               directories that were opened to their owner
//	  tx/3/journal        what is moved where, with the inode numbers of both versions
//	  tx/3/objects/       new objects, then old ones
//	  tx/3/stages, copies only if the project is on another file system
//	../pending/<id>       an operation on this session is going on, or was interrupted
//
// A discard is only recorded in session.json, so that undo can take it back. Sessions that have ended stay for a week.
// Then package overlay removes them (Clean): after a commit or discard, at most once a day, or by `nsrun gc`.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrBusy is wrapped if somebody else holds a session.
var ErrBusy = errors.New("the session is in use")

// ErrGone says that a session was removed, maybe a moment ago.
var ErrGone = fmt.Errorf("it was removed: %w", fs.ErrNotExist)

// ShortList keeps a message readable; the whole list is in the error's fields.
func ShortList(list []string) string {
	const most = 5
	if len(list) == 0 {
		return "nothing"
	}
	if len(list) > most {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

// WhyReplaced is why a root cannot be used.
const WhyReplaced = "is another directory than when the session began"
