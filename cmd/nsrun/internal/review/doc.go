// Package review is the interactive review of a session in a terminal: a list of changes
// beside their diffs, marks, and the commit of what is marked. The model and its keys know
// no terminal, and are tested without one; Run joins them with a session and a screen.
package review
