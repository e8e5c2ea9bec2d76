//go:build linux

// Package screen shows lines of text on a terminal and reads keys from it, for a program that uses the whole window. It
// imports nothing of this module, and knows nothing about what it shows.
//
// A [Screen] owns the terminal from Open to Close. Its user makes a whole window of [Line] values after each change, and
// Draw writes what is new; Events returns what was typed. A Screen uses only what all terminals of today understand. It
// has no database of terminals, because loading one would cost every start of the program, with or without a screen.
//
// # Trust
//
// What is shown may come from somebody else. [Fit] and [FitEnd] write escapes for everything that a terminal would act on,
// that is invisible, or that could be mistaken for something else, and Draw lets nothing else through, whoever made the
// line. If the terminal takes a character for wider or narrower than this package does, only its own part of the line is
// disturbed.
package screen
