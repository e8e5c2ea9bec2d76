//go:build linux

package nsrun_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestInputError: a command whose input could not be read to its end has the beginning, and the caller is told.
func TestInputError(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	broken := errors.New("the other side is gone")
	closed, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	large := func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<20)) }
	for _, c := range []struct {
		name, command, out string
		in                 func() io.Reader // a new one each time: an earlier command's may still be read
		why                string
	}{
		{"broken", "cat", "begin", func() io.Reader { return io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(broken)) }, broken.Error()},
		{"at once", "cat", "", func() io.Reader { return iotest.ErrReader(broken) }, broken.Error()},
		{"closed file", "cat", "", func() io.Reader { return struct{ io.Reader }{closed} }, os.ErrClosed.Error()},
		{"whole", "cat", "whole", func() io.Reader { return strings.NewReader("whole") }, ""},
		{"not read", "true", "", large, ""},
		{"closed by the command", "exec <&-; sleep 0.1", "", large, ""},
	} {
		for _, sandbox := range []nsrun.SandboxMode{nsrun.SandboxRequired, nsrun.SandboxDisabled} {
			r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), Sandbox: sandbox})
			res, err := r.Run(t.Context(), nsrun.Request{Command: c.command, Stdin: c.in()})
			told := ""
			for _, n := range res.Notices {
				if n.Kind == nsrun.NoticeInput {
					told = n.Text
				}
			}
			if err != nil || sandbox == nsrun.SandboxRequired && res.Stdout.String() != c.out || (told != "") != (c.why != "") || !strings.Contains(told, c.why) {
				t.Errorf("%s, %s: %q, %v, told %q", c.name, sandbox, res, err, told)
			}
		}
	}
}

// TestNilFiles: a nil *os.File in an interface is no file, and not a closed descriptor.
func TestNilFiles(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p")})
	var none *os.File
	for _, q := range []nsrun.Request{
		{Stdin: none}, {Stdout: none, Stderr: none}, {Passthrough: true, Stdin: none, Stdout: none, Stderr: none}, {Passthrough: true},
	} {
		q.Command = "ls -L /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2"
		if res, err := r.Run(t.Context(), q); err != nil || res.ExitCode != 0 {
			t.Errorf("%+v: %q, %v", q, res, err)
		}
	}
}
