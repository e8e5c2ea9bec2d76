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
func (x *Execution) heard() bool {
	return x.listened || x.stderr != nil || x.metered != nil || x.observed != nil
}

// silent adds what a program was refused that failed with a status, and said nothing.
func (t *refusalTable) silent(status int) {
	words := simple(t.args)
	if len(words) < 2 || t.landlock {
		return
	}
	switch program := filepath.Base(words[0]); {
	case program == "curl" && status == 7 && slices.Contains(words, "--unix-socket"):
		t.guesses.socket.add(t, t.socket)
	case program == "curl" && status == 23:
		t.guesses.output.add(t, t.output)
	case slices.Contains([]string{"vim", "vi", "nvim", "ex"}, program) && status == 1:
		t.editor(words)
	case program == "curl" && status == 7, program == "wget" && status == 4, (program == "nc" || program == "ncat") && status == 1:
		t.servers([]byte("connection refused"))
	case program == "curl" && status == 37, program == "php", program == "cmp", program == "file",
		(program == "readlink" || program == "realpath") && slices.Contains(words, "-e"):
		t.firstHidden(words[1:])
	case (program == "test" && len(words) == 3 || program == "[" && len(words) == 4) && tests(words[1], t.inDir(words[2])):
		t.firstHidden(words[2:3])
	}
}

// editorWrites is a command of ex(1) that writes, with the file that it names.
var editorWrites = lazyPattern(`^(?:sil(?:ent)?!? +)?(?:[%.$0-9,]*(?:w|wq|write|x|xit|exit)|wa|wall|wqa|wqall|xa|xall|up|update|sav|saveas)!?(?: +([^!>].*))?$`)

// editor adds the first file that vim could not write to. As ex -s and vim -es it says nothing.
func (t *refusalTable) editor(words []string) {
	var files, commands []string
	mute := false
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case word == "-c" && i+1 < len(words):
			i++
			commands = append(commands, strings.Split(words[i], "|")...)
		case strings.HasPrefix(word, "+"):
			commands = append(commands, strings.Split(word[1:], "|")...)
		case slices.Contains([]string{"-u", "-U", "-i", "--cmd", "-S", "-T", "-t", "-w", "-W"}, word):
			i++
		case strings.HasPrefix(word, "-"):
			mute = mute || word == "-es" || word == "-Es" || word == "-s"
		default:
			files = append(files, word)
		}
	}
	if !mute || slices.ContainsFunc(commands, func(command string) bool { return strings.HasPrefix(strings.TrimLeft(command, ": "), "cq") }) {
		return // it fails because it was told to
	}
	for _, command := range commands {
		m := editorWrites().FindStringSubmatch(strings.TrimLeft(command, ": "))
		if m == nil {
			continue
		}
		names := files
		if m[1] != "" {
			names = []string{strings.TrimSpace(m[1])}
		}
		if slices.ContainsFunc(names, func(name string) bool { return t.made(filepath.Clean(t.inDir(name))) }) {
			return
		}
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
	if len(args) != 3 || args[1] != "-c" {
		return nil
	}
	return lineWords(args[2])
}

// lineWords are the words of a line for a shell. Nil: there is something in it that the shell would change or act on.
func lineWords(line string) (words []string) {
	var word []byte
	var quote byte // that the place is in; 0: in none
	begun := false // a word, which may be empty
	for i := range len(line) {
		switch c := line[i]; {
		case c == quote && c != 0:
			quote = 0
		case quote == '\'', quote == '"' && !strings.ContainsRune("$`\\", rune(c)):
			word = append(word, c)
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if begun {
				words = append(words, string(word))
			}
			word, begun = nil, false
		case quote != 0, strings.ContainsRune("|&;<>()$`\n\\*?{}#!=~", rune(c)):
			return nil
		default:
			word, begun = append(word, c), true
		}
	}
	if begun {
		words = append(words, string(word))
	}
	if quote != 0 {
		return nil
	}
	return words
}

// saidNothing reports whether all messages are empty.
func saidNothing(texts [][]byte) bool {
	return !slices.ContainsFunc(texts, func(text []byte) bool { return len(bytes.TrimSpace(text)) > 0 })
}
