// Review runs a shell command in a project, lists what it changed, and asks whether to commit that. The project does
// not change before the answer.
//
//	go run ./examples/review /home/me/src 'gofmt -w .'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/overlay"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: review PROJECT COMMAND")
		os.Exit(2)
	}
	if err := review(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "review:", err)
		os.Exit(1)
	}
}

func review(dir, command string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	ctx := context.Background()
	r := nsrun.NewRunner(nsrun.Config{Project: dir, After: nsrun.Keep})
	defer func() { err = errors.Join(err, r.Close()) }()

	res, err := r.Run(ctx, nsrun.Request{Command: command})
	if err != nil {
		return err
	}
	fmt.Print(res)
	if len(res.Changes) == 0 {
		fmt.Println("nothing changed")
		return nil
	}
	for _, c := range res.Changes {
		fmt.Print(c)
		if c.Kind == overlay.Modified {
			fmt.Printf("  %d → %d bytes", c.OldSize, c.Size)
		}
		if c.Runs != "" {
			fmt.Printf("  would run later: %s", c.Runs)
		}
		fmt.Println()
	}

	fmt.Print("commit? [y/n/keep] ")
	var answer string
	_, _ = fmt.Scanln(&answer) // no answer is none of those below
	switch answer {
	case "y":
		err := r.Commit(ctx, overlay.CommitOptions{AllowExec: true}) // all of it was seen
		if conflict, ok := errors.AsType[*overlay.ConflictError](err); ok {
			for _, c := range conflict.Conflicts {
				fmt.Println("somebody else changed it meanwhile:", c.Path)
			}
		}
		return err
	case "n":
		return r.Discard(ctx)
	}
	fmt.Println("kept: nsrun review", res.Session)
	return nil
}
