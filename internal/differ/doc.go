//go:build linux

// Package differ compares nsrun with bubblewrap 0.12.0, by running both.
//
// Both programs get every command line of a table, and as many more from a generator, each in a new directory at the
// same path. Everything visible is compared: the exit status, the output, what the command finds in its sandbox
// (package probe looks around there), and what is left on the host. Bubblewrap runs twice, to find out what differs
// from run to run.
//
// Intended differences are in one table, differences_test.go, and in docs/bwrap-differences.md. Every other difference
// is a bug. The package imports nothing of this module: it compares the programs as users see them.
//
// The tests need bubblewrap 0.12.0, whose path is in NSRUN_BWRAP. More variables:
//
//	NSRUN_DIFFER_SEED    the seed of the generated command lines
//	NSRUN_DIFFER_COUNT   how many of them
//	NSRUN_DIFFER_REPORT  a file to which the differences are written, grouped
package differ
