// Package bwrapmode is bubblewrap's command line: package bwrap reads it, package nsexec
// carries it out, and what stands between the two is here: descriptors, which the options
// name by number, and messages and exit statuses, which are to be bubblewrap's to the
// letter. It knows no verbs, sessions or projects.
package bwrapmode
