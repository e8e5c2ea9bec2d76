// Package diff shows what a session changed: a list, a diff for people, a patch for git
// apply, statistics, and both sides of a conflict. It writes to what it is given and
// changes nothing; package textdiff compares the texts. It goes through the changes one by
// one, and opens contents when they are written. A patch that could not be completed ends in
// a way that git apply refuses.
package diff
