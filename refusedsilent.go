//go:build linux

package nsrun

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
)

// Some programs fail without a message. Where the command is one such program, and its status or its arguments tell
// what it could not do, what they name was refused. A command line that redirects or joins anything may hide messages.

// heard reports whether nsrun knows what the command wrote to standard error.
func (x *Execution) heard() bool { return x.listened || x.stderr != nil || x.metered != nil }

// silent adds what a program was refused that failed with a status, and said nothing.
func (t *refusalTable) silent(status int) {
	words := simple(t.args)
	if len(words) < 2 || t.landlock {
		return
	}
	switch program := filepath.Base(words[0]); {
	case program == "curl" && status == 7, program == "wget" && status == 4, (program == "nc" || program == "ncat") && status == 1:
		t.servers([]byte("connection refused"))
	case program == "curl" && status == 37, program == "php", program == "cmp", program == "file",
		(program == "readlink" || program == "realpath") && slices.Contains(words, "-e"):
		t.firstHidden(words[1:])
	case (program == "test" && len(words) == 3 || program == "[" && len(words) == 4) && tests(words[1], t.inDir(words[2])):
		t.firstHidden(words[2:3])
	}
}

// tests reports whether test(1) finds a path outside the sandbox.
func tests(option, name string) bool {
	switch option {
	case "-e", "-r":
		return true
	case "-f":
		return !host.IsDir(name)
	case "-d":
		return host.IsDir(name)
	}
	return false
}

// firstHidden adds the first of some words that is the path of something hidden.
func (t *refusalTable) firstHidden(words []string) {
	for _, word := range words {
		name := schemes.Replace(word)
		if strings.HasPrefix(name, "-") {
			continue
		}
		if t.names--; t.names < 0 || t.addPath(filepath.Clean(t.inDir(name)), unix.ENOENT, RefusedRead) {
			return
		}
	}
}

// simple are the words of a command line that has nothing but a program and its arguments, also in a line for a shell.
// Nil: it has more.
func simple(args []string) []string {
	if !shells(filepath.Base(args[0])) {
		return args
	}
	if len(args) != 3 || args[1] != "-c" || strings.ContainsAny(args[2], "|&;<>()$`\n\\*?{}#!=~") {
		return nil
	}
	return strings.Fields(quotes.Replace(strings.ReplaceAll(args[2], "'", "")))
}

// saidNothing reports whether all messages are empty.
func saidNothing(texts [][]byte) bool {
	return !slices.ContainsFunc(texts, func(text []byte) bool { return len(bytes.TrimSpace(text)) > 0 })
}
