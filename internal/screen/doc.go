//go:build linux

// Package screen shows lines of text on a terminal and reads keys from it, for a program that uses the whole window. It
// imports internal/sys only, and knows nothing about what it shows.
//
// A [Screen] owns the terminal from Open to Close. Its user makes a whole window of [Line] values after each change,
// and Draw writes what differs; Events returns what was typed. A Screen uses only control sequences that all terminals
// of today understand. It has no database of terminals, because loading one would slow down every start of the program,
// with or without a screen.
//
// # Trust
//
// The text may come from somebody else. [Fit] and [FitEnd] replace by escapes everything that a terminal would act on,
// that is invisible, or that could be mistaken for something else. Draw writes no such character, whoever made the
// line. If the terminal shows a character wider or narrower than this package assumes, only that character's part of
// the line is disturbed.
package screen
