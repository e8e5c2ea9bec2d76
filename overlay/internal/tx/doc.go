// Package tx puts objects into projects so that all of it is done or none, whenever it is
// interrupted. A transaction (Tx) makes everything new in a place of its own (Writer),
// writes a journal, and moves objects by renaming; Forward and Backward can be begun again
// from any point. The Log of a session finds what a crash left, and finishes it or takes it
// back. The Ledger knows which times in a project are our own doing.
//
// What somebody else changed meanwhile is never removed: it is a *ClashError, or is kept
// aside. Other errors with a path are *fs.PathError.
//
// The package may import overlay/internal/store and overlay/internal/tree, and
// internal/gitindex. It decides nothing about conflicts, and does not choose what is
// committed.
//
// # A commit
//
// New objects are made in tx/N/objects of the session, then journal and objects are flushed, then each object is exchanged
// with the project's by renameat2(2), and one rename of session.json marks the end. A commit waits for the disk four times:
// for objects and journal, for names, for the project and the end mark, and for the name of that. Up to 64
// objects (tree.FsyncMost) are flushed one by one, more with one syncfs(2).
//
// Some file systems need another way:
//
//   - If nothing can be renamed from the session's directory to the project, new objects wait in a directory of the
//     project, whose name is recorded first (stages.go), and old objects are copied.
//   - If two names cannot be exchanged, there are two renames.
//   - Large files and new directories are not copied but moved, if all changes are committed (take.go): after the journal is
//     on disk, from the upper directory to objects, where copies would wait; the disk is waited for once more.
//     tree.Takable decides whether a copy would be the same. What goes backward is moved to the upper directory again, with
//     overlayfs' attributes, which the journal has.
//   - If directories cannot be renamed (overlayfs), their contents are moved.
package tx
