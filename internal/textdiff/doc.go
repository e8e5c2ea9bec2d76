// Package textdiff compares texts by lines: it finds the differences, writes them as a unified diff
// or as a patch that git apply takes, and merges two changes of one text.
//
// The texts may be hostile. The time is bounded: it is about proportional to the sizes, whatever the texts are. The
// price is that two texts with little in common may be shown as one replaced by the other. The result is still exact.
//
// It finds the shortest difference of two sequences with go-udiff, imports internal/githash, and knows no sessions,
// files or terminals. RATIONALE.md says why merging and hunks are not the library's.
package textdiff

import "bytes"

const (
	// MaxBytes and MaxLines are how large texts may be to be compared by lines.
	MaxBytes = 64 << 20
	MaxLines = 1 << 20
)

// IsText reports whether data looks like text, by git's rule: no NUL among the first 8000 bytes.
func IsText(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) < 0 }

// Comparable reports whether two contents are texts, and small enough to be compared by lines.
func Comparable(old, new []byte) bool {
	return IsText(old) && IsText(new) && !tooLarge(old) && !tooLarge(new)
}

func tooLarge(data []byte) bool {
	return len(data) > MaxBytes || len(data) > MaxLines && bytes.Count(data, newline) > MaxLines
}

var newline = []byte{'\n'}
