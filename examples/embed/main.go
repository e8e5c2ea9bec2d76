// Embed runs shell commands in a project, like a program whose model calls a tool. Each command runs in a sandbox, its
// changes are committed when it ends, and its output is what a model reads. The commands are the lines of standard
// input.
//
//	echo 'go test ./...' | go run ./examples/embed /home/me/src
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nsrun/nsrun"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: embed PROJECT <COMMANDS")
		os.Exit(2)
	}
	if err := embed(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func embed(dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r := nsrun.NewRunner(nsrun.Config{
		Project: dir,
		After:   nsrun.Commit, // what a command did can be taken back: nsrun undo
		Timeout: 10 * time.Minute,
	})
	defer func() { err = errors.Join(err, r.Close()) }()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		// An error is part of the result: the model reads "ERROR: …" and tries something else.
		res, _ := r.Run(context.Background(), nsrun.Request{Command: lines.Text()})
		fmt.Printf("$ %s\n%s", lines.Text(), res)
		for _, c := range res.Changes {
			fmt.Println("changed:", c)
		}
	}
	return lines.Err()
}
