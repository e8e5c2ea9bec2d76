// Package review is the interactive review of a session in a terminal: a list of changes beside
// their diffs, marks, and the commit of what is marked. The model and its keys use no terminal, so
// tests need none; Run connects them to a session and a screen.
package review
