// Package docs is the place of the pages about nsrun. It has no code; its tests run the transcripts of the pages, find
// their snippets in examples that are compiled, and check their links, their flags and the length of their lines.
package docs
