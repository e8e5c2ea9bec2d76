//go:build linux

package console

import (
	"context"

	askpkg "github.com/nsrun/nsrun/internal/ask"
)

// Ask asks on the terminal, whatever standard input is, and returns the answer in
// lower case: "" if there is none, or no terminal.
func Ask(question string) string {
	ClearModes()
	answer, _ := askpkg.Line(context.Background(), "nsrun: "+question)
	return answer
}
