//go:build linux

// Package rlimit returns the limit of open files with which the process was executed (RLIMIT_NOFILE). Package syscall
// raises that limit when a Go program starts, keeps the old one to itself, and restores it only for commands that it
// executes itself.
//
// This package imports nothing, and its path sorts before that of syscall. Therefore it is initialized first (The Go
// Programming Language Specification, Program initialization). It changes no limit.
package rlimit

// Limit is a resource limit, struct rlimit64 of prlimit(2).
type Limit struct{ Soft, Hard uint64 }

var atStart = get()

// NoFile is the limit of open files that commands are to have, where it is not the process's own: the one that the
// process was executed with, unless the program has set another one since.
func NoFile() (limit Limit, ok bool) {
	now := get()
	return atStart, now.Hard == atStart.Hard && now.Soft+1 >= now.Hard && atStart.Soft < now.Soft
}

func get() (l Limit) {
	const openFiles = 7 // RLIMIT_NOFILE
	prlimit(openFiles, &l)
	return l
}

// prlimit is prlimit64(2) of this process, which does not fail.
//
//go:noescape
func prlimit(resource uintptr, old *Limit)
