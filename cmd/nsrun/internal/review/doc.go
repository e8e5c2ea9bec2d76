// Package review is the interactive review of a session in a terminal. The user sees a list of changes beside their
// diffs, marks changes, and commits or drops the marked ones. The model and its keys use no terminal, so tests need
// none; Run connects them to a session and a screen.
package review
