//go:build linux

// Package bench holds the benchmarks, one cost each, of what a start is made of.
// Compare, below it, measures the whole side by side with bwrap.
package bench
