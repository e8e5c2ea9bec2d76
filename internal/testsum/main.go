// Testsum runs `go test`, prints its output, and ends with one line: how many tests ran, how many were skipped and why,
// and the command that runs those.
//
//	testsum [--then] [NAME=VALUE…] ARG… [--then [NAME=VALUE…] ARG…]…
//
// Each group of words has the arguments of one `go test`, after variables for its environment. The groups run one after
// the other; the exit status is 1 if one of them fails.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	var s summary
	failed := false
	for _, group := range groups(os.Args[1:]) {
		if err := run(&s, os.Stdout, group); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			failed = true
		}
	}
	fmt.Println(s.line(os.Geteuid() == 0))
	if failed || s.failed > 0 {
		os.Exit(1)
	}
}

// groups are the words between each two "--then".
func groups(words []string) (list [][]string) {
	var group []string
	for _, w := range append(words, "--then") {
		if w != "--then" {
			group = append(group, w)
		} else if len(group) > 0 {
			list, group = append(list, group), nil
		}
	}
	return list
}

// run runs one `go test`.
func run(s *summary, out io.Writer, group []string) error {
	env := os.Environ()
	for len(group) > 0 && strings.Contains(group[0], "=") && !strings.HasPrefix(group[0], "-") {
		env, group = append(env, group[0]), group[1:]
	}
	fmt.Fprintln(out, strings.Join(append([]string{"go", "test"}, group...), " "))
	goCommand := os.Getenv("GO")
	if goCommand == "" {
		goCommand = "go"
	}
	c := exec.Command(goCommand, append([]string{"test", "-json"}, group...)...)
	c.Env = env
	c.Stderr = os.Stderr
	events, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	if err := s.read(events, out); err != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		return err
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}
