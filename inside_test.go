//go:build linux

package nsrun_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/mounts"
)

// insideEnv makes this binary one of insides: what tests run in a sandbox.
const insideEnv = "NSRUN_TEST_INSIDE"

var insides = map[string]func(args []string) int{
	"dial": insideDial, "serve": insideServe, "core": insideCore, "assault": insideAssault, "takeover": insideTakeover,
	"renames": insideRenames, "move": insideMove, "many": insideMany, "restricted": insideRestricted, "link": insideLink, "replace": insideReplace, "fanotify": insideFanotify,
}

// self is this binary.
func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// shown is c with this binary in the sandbox.
func shown(t testing.TB, c nsrun.Config) nsrun.Config {
	c.Rules = append(c.Rules, nsrun.Rule{Mode: nsrun.ReadOnly, Pattern: self(t)})
	return c
}

func insideRequest(t testing.TB, name string, args ...string) nsrun.Request {
	return nsrun.Request{Args: append([]string{self(t)}, args...), Env: []string{insideEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}}
}

// insideDial connects to unix sockets, and prints for each what it got.
func insideDial(args []string) int {
	for _, name := range args {
		c, err := net.Dial("unix", name)
		if err == nil {
			_ = c.Close()
			fmt.Println("reached")
			continue
		}
		errno, _ := errors.AsType[syscall.Errno](err)
		fmt.Println(errno.Error())
	}
	return 0
}

// shownMount shows this binary where a Spec has no Config.
func shownMount(t testing.TB) mounts.Mount { return mounts.ROBind(self(t), self(t)) }
