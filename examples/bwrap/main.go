// Bwrap runs a command in a sandbox for which programs otherwise start bwrap:
//
//	bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
//		--bind "$PWD" "$PWD" --chdir "$PWD" COMMAND
//
// It exits with the command's status. A failure before the command runs is an error that names the step, not a line of
// another program's output. If you need bwrap's command line itself, link nsrun to that name.
//
//	go run ./examples/bwrap make test
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: bwrap COMMAND [ARG]...")
		os.Exit(2)
	}
	err := bwrap(os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bwrap:", err)
		os.Exit(1)
	}
}

func bwrap(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	cmd := nsexec.Command(args[0], args[1:]...) // all namespaces are new, and it ends with this program
	cmd.Mounts = mounts.Plan{
		mounts.ROBind("/", "/"),
		mounts.Dev("/dev"),
		mounts.Proc("/proc"),
		mounts.Tmpfs("/tmp"),
		mounts.Bind(dir, dir),
	}
	cmd.Dir = dir
	cmd.Env = os.Environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
