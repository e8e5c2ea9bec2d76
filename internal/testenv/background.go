//go:build linux

package testenv

import (
	"io"
	"os/exec"
	"testing"
)

// Background starts a program that ends when its standard input is closed, which it is at the end of the test. It
// returns the program's standard output.
func Background(t testing.TB, c *exec.Cmd) io.Reader {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	return out
}
