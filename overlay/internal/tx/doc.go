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
package tx
