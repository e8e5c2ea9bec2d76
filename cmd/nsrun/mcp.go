//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/mcpargs"
)

var mcpVerb = usage.Verb{
	Name: "mcp", Args: "[flags]",
	Short: "serve agents over the Model Context Protocol",
	Long: `Serves the Model Context Protocol on standard input and output, with one tool:
run_command {command, working_dir, network}. An agent's program starts it, from its
configuration:

  {"mcpServers": {"nsrun": {"command": "nsrun", "args": ["mcp", "--project", "/home/me/src"]}}}

Commands run as with nsrun run: the host's files are read-only and secrets are hidden,
the project is behind an overlay, $HOME/playground is for experiments, and there is no
network. When a command asks for the network (network: true), the agent's program asks
the user, each time; if it cannot ask (elicitation), the answer is no. What --allow-net
allows needs no question.

Requests can come from a pipe or a file: each gets its answer. After the end of standard
input, commands have one more minute, in addition to --timeout; then nsrun ends them.`,
	Examples: `nsrun mcp --project ~/src --allow-net packages.example.org`,
	Flags:    func(fs *flag.FlagSet) { mcpargs.Define(fs, &mcpargs.Options{}) },
}

// cmdMCP executes the program that serves: linking its libraries would slow down every other verb.
func cmdMCP(args []string) int {
	if _, err := mcpargs.Parse(args); err != nil {
		return mcpVerb.Fail(mcpVerb.Wrong(mcpVerb.FlagSet(), err))
	}
	path, err := beside("mcp", mcpargs.Program)
	if err == nil {
		err = syscall.Exec(path, append([]string{path}, args...), mcpargs.HideRuntime(os.Environ()))
		err = &os.PathError{Op: "exec", Path: path, Err: err}
	}
	return console.Fail(err)
}

// beside finds a program that is installed with this one: in the same directory (go
// install), or in ../libexec/nsrun (make install).
func beside(what, name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	for _, path := range [...]string{filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), "libexec", "nsrun", name)} {
		fi, err := os.Stat(path)
		switch {
		case err == nil && fi.Mode().IsRegular():
			return path, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", advice.With(fmt.Errorf("%s: %s is not installed beside %s", what, name, self),
		"try: go install github.com/nsrun/nsrun/cmd/...@latest, or make install")
}
