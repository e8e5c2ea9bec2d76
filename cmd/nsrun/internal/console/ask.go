//go:build linux

package console

import (
	"context"

	askpkg "github.com/nsrun/nsrun/internal/ask"
)

// Ask asks on the terminal, whatever standard input is, and returns the answer in
// lower case: "" if there is none, or no terminal.
func Ask(question string) string { return AskUntil(context.Background(), question) }

// AskUntil is Ask, for an answer before ctx ends.
func AskUntil(ctx context.Context, question string) string {
	ClearModes()
	answer, _ := askpkg.Line(ctx, "nsrun: "+question)
	return answer
}
