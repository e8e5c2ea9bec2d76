//go:build linux

// Package screen shows lines of text on a terminal and reads keys from it, for programs
// that take the whole window.
//
// A [Screen] owns the terminal from Open to Close. Whoever uses it makes a whole window
// of [Line] values each time something changed, and Draw writes what is new; what is
// typed comes out of Events. It knows what all terminals of today know, and no database
// of them: that costs every start of the program, whether it has a screen or not.
//
// # Trust
//
// What is shown may come from somebody else. [Fit] and [FitEnd] write escapes for all
// that a terminal would act on, that cannot be seen, or that could be mistaken for
// something else, and Draw lets nothing else through, whoever made the line. A character
// that the terminal takes for wider or narrower than this package does disturbs its own
// part of the line only.
package screen
