// Package project is the registry of what commands did to projects: which files there are, which commands ran and what
// they changed, copies of changed files, and permissions that were given permanently. It imports change,
// internal/escape, internal/homedir, internal/owndir, internal/paths, internal/plainjson, internal/sys and
// bbolt. It knows neither sessions nor sandboxes, and changes nothing in a project except what Restore puts back.
//
//	r := project.Open(project.Options{})
//	defer r.Close()
//	err := r.Scan(ctx, root)                               // once: these files are backed up from now on
//	…                                                      // a command has ended, nothing is committed yet
//	rec, err := r.Record(ctx, execution, changes, original)
//	…                                                      // the commit
//	err = r.Committed(ctx, session, changes)
//
// # When a call fails
//
// The registry is for people who want to know what happened, or want files back; a project is complete without it.
// Record comes before a commit and changes nothing in a project. If Record fails, nothing is half done: report the
// error, and commit, or keep the session if a backup was asked for. The calls after a commit (Committed, Undone,
// Discarded) tell the registry what happened. If one fails, report the error and go on; the next Scan finds out. Never
// stop a commit because of this package.
//
// # Files
//
//	$XDG_STATE_HOME/nsrun/registry.db         the database (bbolt)
//	$XDG_STATE_HOME/nsrun/registry.journal    what is not in the database yet
//	$XDG_CACHE_HOME/nsrun/edited/{id}-{YY-MM-DD}-{basename}      backups
//	$XDG_CACHE_HOME/nsrun/temp-files/{execution}/{n}-{basename}  before-versions
//
// The database is state: it is of no use on another machine, and losing it loses history, not work. (The XDG Base
// Directory Specification distinguishes $XDG_STATE_HOME from $XDG_DATA_HOME in this way.) Sandboxes hide
// $XDG_STATE_HOME/nsrun anyway. They must hide $XDG_CACHE_HOME/nsrun as well: [Registry.Private] lists both. Each has
// mode 0700 and must belong to the caller; a link, or a directory of somebody else, is refused.
//
// # Several processes
//
// The database is open, and locked, for one transaction at a time: some tens of microseconds for reading, the disk's
// time for writing. Other processes wait (Options.Wait). Entries that need no number from the database are first
// appended to the journal, which takes no lock that anybody holds for long. The next transaction that writes or reads
// moves the journal's lines into the database, all of them or none.
//
// # Durability
//
// When a call has returned, its effect survives the end of the process, whatever ends it. A power cut may lose the last
// journal lines (some seconds of the audit log). It never loses what was written before Flush returned, an id, a
// permission, or a backup that Record reported: these are on disk before the call returns. The database never shows a
// part of a transaction.
//
// # Trust
//
// The sandboxed command chose the names of files and their contents. The package opens backups below directories that
// it holds open, without following links. It neither reads nor waits for anything that is not a regular file.
package project
