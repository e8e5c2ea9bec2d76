// Recorder is installed where a program looks for bwrap. It writes its arguments to a file, one
// line for each call, and then executes the program that is tested. It is not a shell script,
// because a shell changes the environment and the descriptors.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Set when it is linked, because callers empty the environment.
var target, record string

func main() {
	err := note()
	if err == nil {
		err = syscall.Exec(target, append([]string{"bwrap"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "recorder:", err)
	os.Exit(1)
}

func note() error {
	f, err := os.OpenFile(record, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	var args []string
	for i, a := range os.Args[1:] {
		args = append(args, a)
		if os.Args[i] == "--args" {
			args = append(args, argsFile(a)...)
		}
	}
	if _, err := fmt.Fprintf(f, "%q\n", args); err != nil {
		return err
	}
	return f.Close()
}

// argsFile is what is behind --args, if that can be looked at without reading the descriptor empty.
func argsFile(fd string) []string {
	path := "/proc/self/fd/" + fd
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}
