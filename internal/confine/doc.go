// Package confine describes what a command may do with files where there are no mounts: the kernel's Landlock is told
// which directories and files it may use, and refuses all others. Landlock has no rules that forbid: what is allowed for
// a directory is allowed for all below it. So a directory with something hidden in it is not allowed itself; everything
// else in it is, one by one.
//
// Package plan turns a Plan, which stays the one description of what a command sees, into marks: what is hidden, readable
// or writable at which path, and where things are that mounts would have put elsewhere. A directory with something hidden
// in it is listed. Package nsexec opens each directory by one name in the one above it, without following links.
//
// The package is pure: it makes a tree of rules of a list of marks, and of what somebody says is in directories. Package
// plan has the marks, package nsexec makes system calls of the tree. It imports
// package mounts only.
package confine
