//go:build linux

// Package bench holds the benchmarks of the parts of a start, one cost each. Compare, below it,
// measures whole starts side by side with bwrap.
package bench
