// Package project is the registry of what commands did to projects: which files
// there are, what was run and what it changed, copies of what was changed, and the
// permissions that were given for good.
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
// The registry serves people who want to know and to have back; a project is whole
// without it. Record comes before a commit and changes nothing in a project, so when it
// fails nothing is half done: say so, and commit, or keep the session where a backup was
// asked for. What is called after a commit (Committed, Undone, Discarded) tells the
// registry what happened: where that fails say so and go on; the next Scan finds out.
// Never stop a commit because of this package.
//
// # What is where
//
//	$XDG_STATE_HOME/nsrun/registry.db         the database (bbolt)
//	$XDG_STATE_HOME/nsrun/registry.journal    what is not in the database yet
//	$XDG_CACHE_HOME/nsrun/edited/{id}-{YY-MM-DD}-{basename}      backups
//	$XDG_CACHE_HOME/nsrun/temp-files/{execution}/{n}-{basename}  before-versions
//
// The database is state: it is of no use on another machine, and its loss costs
// history, not work (that is how the XDG specification tells $XDG_STATE_HOME from
// $XDG_DATA_HOME). Sandboxes hide $XDG_STATE_HOME/nsrun anyway. They must hide
// $XDG_CACHE_HOME/nsrun as well: [Registry.Private] lists both. Each is 0700 and must
// belong to the caller; one that is a link, or somebody else's, is refused.
//
// # Several processes
//
// The database is open, and locked, for one transaction at a time: some tens of
// microseconds for reading, the disk's time for writing. Others wait (Options.Wait).
// What needs no number given out by the database is not written to it at once, but
// appended to the journal, which takes no lock that anybody holds for long. The
// next transaction that writes takes the journal's lines into the database, and so
// does whoever reads; both all at once or not at all.
//
// # What survives what
//
// When a call has returned, its effect survives the end of the process, whatever ends
// it. A power cut may take the last journal lines (some seconds of the audit log); it
// never takes what Flush has returned for, an id, a permission, or a backup that Record
// reported: these are on disk before the call returns. The database is never between
// two transactions.
//
// # Trust
//
// Names of files, and their contents, are the sandboxed command's. Backups are opened
// below directories that are held open, without following links; what is no regular
// file is neither read nor waited for.
package project
