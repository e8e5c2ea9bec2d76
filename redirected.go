//go:build linux

package nsrun

import (
	"bufio"
	"bytes"
	"io"
	"path/filepath"
	"strings"
)

// mostScripts is how many words of a command line nsrun looks at as names of scripts, and mostOfScript how many bytes
// of each it reads.
const mostScripts, mostOfScript = 16, 64 << 10

// redirectsMessages reports whether the command is a line for a shell, or runs a shell's script, with messages of its
// own: "echo no such file: x >&2". The shell writes them to descriptor 1, which for that long is standard error. To
// look at that descriptor makes all that is written to it take longer, so it is done for such commands only.
func (x *Execution) redirectsMessages() bool {
	before, looks := "", 0
	for _, arg := range x.args {
		if redirects(arg) {
			return true
		}
	}
	for word := range shellWords(x.args) {
		if strings.HasPrefix(word, "-") {
			continue
		}
		run := shells(filepath.Base(before))
		if (run || strings.Contains(word, "/")) && looks < mostScripts {
			looks++
			if !filepath.IsAbs(word) {
				word = filepath.Join(x.dir, word)
			}
			if text := scriptAt(word, run); redirects(string(text)) {
				return true
			}
		}
		before = word
	}
	return false
}

// redirects reports whether lines for a shell write something to standard error.
func redirects(lines string) bool {
	return strings.Contains(lines, ">&2") || strings.Contains(lines, ">& 2") || strings.Contains(lines, "/dev/stderr")
}

// isShellScript reports whether a file that begins so is executed by a shell.
func isShellScript(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	words := bytes.Fields(bytes.TrimPrefix(line, []byte("#!")))
	if !bytes.HasPrefix(line, []byte("#!")) || len(words) == 0 {
		return false
	}
	program := filepath.Base(string(words[0]))
	if program == "env" {
		program = string(words[len(words)-1])
	}
	return shells(program)
}

// scriptAt is the beginning of a shell's script. A shell that is given its name, as run says, executes any file. Empty:
// it is none, or cannot be read.
func scriptAt(name string, run bool) []byte {
	f := openRegular(name)
	if f == nil {
		return nil
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 512)
	if line, _ := r.Peek(256); !run && !isShellScript(line) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r, mostOfScript))
	if err != nil {
		return nil
	}
	return text
}
