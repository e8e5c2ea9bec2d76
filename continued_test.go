//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func init() { insides["continued"] = insideContinued }

// insideContinued writes for ever. With "continue", whatever comes on standard input continues it, whoever stops it.
func insideContinued(args []string) int {
	if args[0] == "continue" {
		_, err := unix.FcntlInt(0, unix.F_SETOWN, os.Getpid())
		_, e := unix.FcntlInt(0, unix.F_SETSIG, int(unix.SIGCONT))
		flags, f := unix.FcntlInt(0, unix.F_GETFL, 0)
		_, g := unix.FcntlInt(0, unix.F_SETFL, flags|unix.O_ASYNC)
		if err := errors.Join(err, e, f, g); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("ready")
	for text := make([]byte, 4096); ; {
		if _, err := os.Stdout.Write(text); err != nil {
			return 0
		}
	}
}
