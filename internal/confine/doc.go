// Package confine describes what a command may do with files where there are no mounts. Landlock gets a list of the
// directories and files that the command may use, and refuses all others (landlock(7)). Landlock has no rules that
// forbid: a right for a directory holds for everything below it. So a directory with something hidden in it gets no
// right itself; everything else in it gets one, each entry by itself.
//
// Package plan turns a Plan, which stays the one description of what a command sees, into marks: which paths are
// hidden, readable or writable, and where things are that mounts would have put elsewhere. If a directory has something
// hidden in it, its entries are read. Package nsexec opens each directory by one name in the one above it, without
// following links.
//
// The package is pure: it turns a list of marks into a tree of rules, and its caller tells it what directories contain.
// Package plan makes the marks, and package nsexec turns the tree into system calls. It imports package mounts only.
package confine
