//go:build linux

package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/nsexec"
)

// Exit statuses of our own, as timeout(1) and env(1) have them.
const (
	ExitTimeout       = 124
	ExitFailed        = 125
	ExitCannotExecute = 126
	ExitNotFound      = 127
	ExitInterrupted   = 128 + int(unix.SIGINT)
)

// Say prints one line on standard error. It escapes newlines and control characters.
func Say(format string, args ...any) {
	ClearModes()
	_, _ = os.Stderr.WriteString("nsrun: " + escape.Printable(fmt.Sprintf(format, args...)) + "\n")
}

// PrintText prints text on standard output, and returns the exit status.
func PrintText(text string) int {
	if _, err := os.Stdout.WriteString(text); err != nil {
		return Fail(err)
	}
	return 0
}

// Fail prints an error, with a hint if there is one, and returns the exit status for it.
func Fail(err error) int {
	if errors.Is(err, context.Canceled) { // only signals cancel: see Interruptible
		Say("interrupted")
		return ExitInterrupted
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // errors that were joined
	if hint := advice.For(err); hint != "" {
		text += " (" + hint + ")"
	}
	Say("%s", text)
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepExec {
		if errors.Is(e.Err, unix.ENOENT) {
			return ExitNotFound
		}
		return ExitCannotExecute
	}
	return ExitFailed
}
