// Agent runs one shell command in the current directory, like a program that calls a tool for a model, and prints what
// the model reads and what a person reviews. The changes are kept apart from the directory until somebody commits them,
// for example with nsrun review.
//
//	go run ./examples/agent 'make test'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nsrun/nsrun"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	r := nsrun.NewRunner(nsrun.Config{Project: dir, Approver: nsrun.Terminal{}, Timeout: time.Minute})
	defer r.Close()
	res, err := r.Run(context.Background(), nsrun.Request{Command: os.Args[1]}) // a line for the shell
	if err != nil {
		panic(err) // nsrun could not run the command; a command that fails is not an error
	}
	fmt.Print(res)          // for the model: stdout, stderr, and the exit code if it is not zero
	fmt.Print(res.Report()) // for the user: "M a.go", "A out/"; r.Commit copies these changes to the project
}
