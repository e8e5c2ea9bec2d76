// Package overlay keeps what a sandboxed command writes to a project apart
// from the project, shows what changed, and puts the changes into the project
// or throws them away.
//
// A [Session] is one overlay over one or more project roots:
//
//	s, err := overlay.Create(overlay.Options{Roots: []string{"/home/me/src"}})
//	…                                  // run a command with s.Mounts() in its plan
//	for c, err := range s.Changes() {  // "M package.json", "A node_modules/", "D old.txt"
//	}
//	err = s.Commit(ctx)                // or s.Commit(ctx, "package.json"), or s.Discard()
//	err = s.Close()
//
// Each root is the lower layer of an overlay mounted at the root's own path;
// writes go to an upper directory in the session's state directory. Nothing is
// recorded about the project when a session begins, so that beginning costs the
// same for ten files and for a million.
//
// # Changes
//
// Changes are found by walking the upper directory and comparing it with the
// project, in time proportional to what was written. A file that was written
// with the bytes, mode, owner and extended attributes it has in the project is
// no change, and neither is a new modification time alone.
//
// # Engines
//
// If the file system of the state directory cannot hold an upper directory, the
// session keeps it on a tmpfs. If no overlay can be mounted, the command works on a
// copy ([Engine]). In both cases the command needs [Session.Layers] beside [Session.Mounts], and
// [Session.Collect] stores what it wrote when it has ended. Everything else is the
// same; to call both for every session does no harm.
//
// # Commit
//
// A commit first compares, refuses what must not be committed ([SpecialError])
// and what the project's owner changed meanwhile ([ConflictError], unless
// [CommitOptions] says who is right). Then it makes every new object in the
// session's own directory, writes a journal, and exchanges the objects with the
// project's: what was replaced or deleted is in the session's directory by that,
// as the backup. Nothing is ever truncated or overwritten in place.
//
// The new objects are copies; but where nothing is left in the session, and one file
// system has both, large files and new directories are moved, and Undo moves them back.
// If somebody overwrote one of them in the project, and Undo is forced, the session has
// that.
//
// It is all or nothing, whenever it is interrupted: the next call of Create, Open,
// List or [Recover] finishes it or takes it back. [Session.Undo] takes a commit back
// that was done; the session is then what it was before.
//
// # Conflicts
//
// Nobody can set a file's ctime. A ctime later than the beginning of the session is a conflict, unless the session's ledger
// says that nsrun itself caused it. When the command has ended, the session keeps the project's versions of text files: a
// three-way merge needs them. Every git status replaces git's index, so the index from before a command is held open, and
// internal/gitindex compares and merges what is staged.
//
// # Limits
//
// Replacing a directory of the project by another one of the same name (mv) is not a conflict by itself. Directories that
// their owner cannot enter (mode 0444), and that a session deleted, cannot be compared: an ordinary user's commit is
// refused. Names of one new file that are committed separately are not linked. With the engine copy, a file that grows while
// it is copied stops the start.
//
// # Who holds what
//
// A Session holds the state directory, its own directory, its lock and the roots. A
// walk, a commit (its tx) and an undo have descriptors of their own, and close them
// before they return; a dir belongs to whoever opened it.
//
// # Trust
//
// The sandboxed command owns the upper directory's content, and may own the
// project as well. Below a root nothing is ever reached through a path that is
// looked up twice from the file system's root: descriptors of the two top
// directories are held, and everything else is opened beneath them without
// following a symbolic link or crossing into another mount. The state directory
// itself must not be visible inside the sandbox.
package overlay
