//go:build linux

package main

import (
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
	exitTimeout       = 124
	exitFailed        = 125
	exitCannotExecute = 126
	exitNotFound      = 127
)

// say prints one of our lines. Whatever is in it, it is one line, and nothing
// that a terminal would act on.
func say(format string, args ...any) {
	clearModes()
	_, _ = os.Stderr.WriteString("nsrun: " + escape.Printable(fmt.Sprintf(format, args...)) + "\n")
}

// fail prints what went wrong, with what to type where that is known, and returns
// the exit status for it.
func fail(err error) int {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // errors that were joined
	if hint := advice.For(err); hint != "" {
		text += " (" + hint + ")"
	}
	say("%s", text)
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == "exec" {
		if errors.Is(e.Err, unix.ENOENT) {
			return exitNotFound
		}
		return exitCannotExecute
	}
	return exitFailed
}
