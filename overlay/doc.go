// Package overlay keeps what a sandboxed command writes to a project apart from the project, lists the changes, and
// commits them to the project or discards them.
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
// Each root is the lower layer of an overlay mounted at the root's own path; writes go to an upper directory in the
// session's state directory. A new session records nothing about the project, so creating one costs the same for ten
// files and for a million.
//
// # Changes
//
// Changes are found by walking the upper directory and comparing it with the project, in time proportional to what was
// written. A file that was written with the same bytes, mode, owner and extended attributes as in the project is no
// change, and neither is a new modification time alone.
//
// # Engines
//
// If the file system of the state directory cannot hold an upper directory, the session keeps it on a tmpfs. If no
// overlay can be mounted, the command works on a copy ([Engine]). In both cases the command needs [Session.Layers] in
// addition to [Session.Mounts], and [Session.Collect] stores what the command wrote after it has ended. Everything else
// is the same. Calling both for every session does no harm. engine.go names the engines, and arm.go chooses one.
//
// # Commit
//
// A commit first compares the session with the project. It refuses files that must not be committed ([SpecialError])
// and files that the project's owner changed meanwhile ([ConflictError], unless [CommitOptions] says which side to
// take). Then it makes every new object in the session's own directory, writes a journal, and exchanges the objects
// with the project's. The exchange moves what was replaced or deleted into the session's directory, as the backup.
// Nothing is ever truncated or overwritten in place.
//
// The new objects are copies. But if the commit leaves nothing in the session, and session and project are on one file
// system, it moves large files and new directories, and Undo moves them back. If somebody overwrote one of them in the
// project, and Undo is forced, the session then has the overwritten version.
//
// A commit is all or nothing, whenever it is interrupted: the next call of Create, Open, List or [Recover] finishes it
// or rolls it back. [Session.Undo] takes back a finished commit; the session is then as it was before.
//
// # Conflicts
//
// Programs cannot set a file's ctime. A ctime later than the beginning of the session is a conflict, unless the
// session's ledger says that nsrun itself caused it. When the command has ended, the session keeps the project's
// versions of text files: a three-way merge needs them. Every git status replaces git's index, so the session holds
// open the index from before a command, and internal/gitindex compares and merges the staged entries. gitfiles.go
// has the other files of git that both sides may write.
//
// # Limits
//
// Replacing a directory of the project by another one of the same name (mv) is not a conflict by itself. If a session
// deleted a directory that its owner cannot enter (mode 0444), the directory cannot be compared: an ordinary user's
// commit is refused. Names of one new file that are committed separately are not linked. With the engine copy, a file
// that grows while it is copied stops the start.
//
// # Descriptors
//
// A Session holds the state directory, its own directory, its lock and the roots. A walk, a commit (its tx) and an undo
// have descriptors of their own, and close them before they return; a dir belongs to whoever opened it.
//
// # Trust
//
// The sandboxed command owns the upper directory's content, and may own the project as well. The package never looks up
// a path below a root twice from the file system's root: it holds descriptors of the two top directories, and opens
// everything else beneath them without following a symbolic link or crossing into another mount (openat2(2)). The state
// directory itself must not be visible inside the sandbox.
package overlay
