// Package docs is the directory of the pages about nsrun. It has no code. Its tests run the transcripts of the pages,
// check that each snippet is part of an example that is compiled, and check links, flags and the length of lines.
package docs
