// Package bwrapmode runs bubblewrap's command line: package bwrap parses it, and package nsexec
// runs the command. This package does what is between the two: it handles descriptors, which the
// options name by number, and prints messages and returns exit statuses that are exactly
// bubblewrap's. It knows no verbs, sessions or projects.
package bwrapmode
