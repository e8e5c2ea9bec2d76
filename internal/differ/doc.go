//go:build linux

// Package differ compares nsrun with bubblewrap 0.12.0, by running both.
//
// Every command line of a table, and as many more from a generator, is given to
// both programs, each in a directory made anew at the same path. Whatever can be
// seen then is compared: the exit status, what was printed, what the command found
// in its sandbox (package probe looks around there), and what is left on the host.
// Bubblewrap runs twice, so that what is not the same every time is known.
//
// What is meant to be different stands in one table, differences_test.go, and in
// docs/bwrap-differences.md. Everything else that differs is a bug.
//
// The tests need bubblewrap 0.12.0, whose path is in NSRUN_BWRAP. More variables:
//
//	NSRUN_DIFFER_SEED    the seed of the generated command lines
//	NSRUN_DIFFER_COUNT   how many of them
//	NSRUN_DIFFER_REPORT  a file to which the differences are written, grouped
package differ
