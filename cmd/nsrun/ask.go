//go:build linux

package main

import (
	"context"

	askpkg "github.com/nsrun/nsrun/internal/ask"
)

// ask asks on the terminal, whatever standard input is, and returns the answer in
// lower case: "" if there is none, or no terminal.
func ask(question string) string {
	clearModes()
	answer, _ := askpkg.Line(context.Background(), "nsrun: "+question)
	return answer
}
