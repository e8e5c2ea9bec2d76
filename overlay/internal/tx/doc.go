// Package tx puts objects into projects, all or none, whenever it is interrupted. A transaction (Tx) makes everything
// new in a place of its own (Writer), writes a journal, and moves objects by renaming; Forward and Backward can be
// started again from any point. The Log of a session finds what a crash left, and finishes it or rolls it back. The
// Ledger knows which times in a project this package set itself.
//
// The package never removes what somebody else changed meanwhile: it returns a *ClashError, or
// keeps the file aside. Other errors with a path are *fs.PathError.
//
// The package may import overlay/internal/store and overlay/internal/tree, and internal/gitindex. It decides nothing
// about conflicts, and does not choose what is committed.
//
// # A commit
//
// The package makes new objects in tx/N/objects of the session, flushes journal and objects, exchanges each object with
// the project's by renameat2(2), and marks the end by one rename of session.json. A commit waits for the disk four
// times: for objects and journal, for their names, for the project and the end mark, and for the name of the end mark.
// Up to 64 objects (tree.FsyncMost) are flushed one by one, more with one syncfs(2).
//
// If a commit is taken back and the session's data cannot be written, as on a full disk, the journal stays, and the
// next recovery writes the data (Log.Owed). Until then there is no commit: it would find conflicts that are none.
//
// Some file systems need another way:
//
//   - If nothing can be renamed from the session's directory to the project, new objects wait in a directory of the
//     project, whose name is recorded first (stages.go), and old objects are copied.
//   - If two names cannot be exchanged, there are two renames.
//   - If all changes are committed, large files and new directories are not copied but moved (take.go): after the
//     journal is on disk, from the upper directory to objects, where copies would wait. This waits for the disk once
//     more. tree.Takable decides whether a copy would be the same. Backward moves them to the upper directory again,
//     with overlayfs' attributes, which the journal has.
//   - If directories cannot be renamed (overlayfs), their contents are moved.
package tx
