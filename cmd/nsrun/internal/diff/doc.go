// Package diff prints the changes of a session: as a list, a diff for people, a patch for git apply, or statistics. It
// also describes conflicts. It changes nothing; package textdiff compares the texts. It handles one change after the
// other, and opens a file only to write its contents. git apply refuses a patch that could not be completed.
package diff
