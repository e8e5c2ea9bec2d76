// Package bwrapmode runs bubblewrap's command line: package bwrap parses it, and package nsexec
// runs the command. This package translates between them: it handles descriptors, which the options name by number,
// and has exactly bubblewrap's messages and exit statuses. It knows no verbs, sessions or projects.
package bwrapmode
