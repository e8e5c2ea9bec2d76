//go:build linux

package nsrun

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestPaused: while a question is asked, a command is stopped. If it has itself continued, here by a signal for input
// (F_SETSIG), the answer does not count. The control is that it writes meanwhile.
func TestPaused(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	testenv.NeedNamespaces(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		how  string
		want error
	}{{"stay", nil}, {"continue", errRan}} {
		t.Run(c.how, func(t *testing.T) {
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			typed, keys, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer keys.Close()
			cmd := nsexec.Command(exe, c.how)
			cmd.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Proc("/proc")}
			cmd.Env = append(nsexec.BaseEnv(), "NSRUN_TEST_INSIDE=continued", "GORACE=atexit_sleep_ms=0")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = typed, in, os.Stderr
			err = cmd.Start()
			_, _ = in.Close(), typed.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			r := bufio.NewReader(out)
			if line, err := r.ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			x := &Execution{cmd: cmd}
			err = x.paused(t.Context(), func() {
				if _, err := keys.Write([]byte("yes\n")); err != nil {
					t.Error(err)
				}
				if c.want != nil { // more than the pipe can hold
					if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
						t.Errorf("the control: it writes nothing: %v", err)
					}
				}
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
