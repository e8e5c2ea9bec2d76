// Stream runs a command and shows its output while it runs, line by line, with the time since the start. Ctrl-C ends
// the command and everything that it started.
//
//	go run ./examples/stream -- make test
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/nsrun/nsrun"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: stream [--] COMMAND [ARG]...")
		os.Exit(2)
	}
	code, err := stream(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// stream runs a command in the current directory, whose files it can read, and returns its exit status.
func stream(args []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	r := nsrun.NewRunner(nsrun.Config{Project: dir, Mode: nsrun.ReadOnly})
	defer func() { err = errors.Join(err, r.Close()) }()

	out := &lines{to: os.Stdout, mark: "out", began: time.Now()}
	errs := &lines{to: os.Stdout, mark: "err", began: time.Now()}
	x, err := r.Start(ctx, nsrun.Request{Args: args, Stdout: out, Stderr: errs})
	if err != nil {
		return 0, err
	}
	res, err := x.Wait()
	out.end()
	errs.end()
	return res.ExitCode, err
}

// lines is a Writer that writes whole lines, with a mark and the time in front.
type lines struct {
	to    io.Writer
	mark  string
	began time.Time
	part  []byte // of a line that has not ended
}

var mu sync.Mutex // output and errors are copied by goroutines of their own

func (l *lines) Write(b []byte) (int, error) {
	mu.Lock()
	defer mu.Unlock()
	l.part = append(l.part, b...)
	for {
		line, rest, ended := bytes.Cut(l.part, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		if _, err := fmt.Fprintf(l.to, "%s %6.2fs  %q\n", l.mark, time.Since(l.began).Seconds(), line); err != nil {
			return 0, err
		}
		l.part = rest
	}
}

// end writes a last line without a newline.
func (l *lines) end() {
	if len(l.part) > 0 {
		_, _ = l.Write([]byte("\n"))
	}
}
