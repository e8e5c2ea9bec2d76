// Watch runs a shell command in the current directory, and shows what it writes there while it runs. All changes are
// thrown away at the end.
//
//	go run ./examples/watch 'go generate ./...'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/fanotify"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: watch COMMAND")
		os.Exit(2)
	}
	if err := watch(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

func watch(command string) (err error) {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	r := nsrun.NewRunner(nsrun.Config{Project: dir, Watch: true, After: nsrun.Discard})
	defer func() { err = errors.Join(err, r.Close()) }()
	x, err := r.Start(context.Background(), nsrun.Request{Command: command})
	if err != nil {
		return err
	}

	// Wait returns when all events were seen.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range x.Events() {
			show(ev, err)
		}
	}()
	res, err := x.Wait()
	<-done
	if err != nil {
		return err
	}
	fmt.Printf("exit code %d, %d changes\n", res.ExitCode, len(res.Changes))
	return nil
}

// show prints an event. Names are the command's: whatever is in them, nothing acts on a terminal.
func show(ev fanotify.Event, err error) {
	switch {
	case err != nil:
		fmt.Println("not seen:", err)
	case ev.Op == fanotify.Renamed:
		fmt.Printf("%-8s %q → %q\n", ev.Op, ev.From, ev.Path)
	case ev.Op == fanotify.Created || ev.Op == fanotify.Removed:
		fmt.Printf("%-8s %q\n", ev.Op, ev.Path)
	}
}
