//go:build linux

package attempts

import (
	"bytes"
	"os"
	"path"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
)

// file is a file of a process in /proc; nil where there is none.
func file[N int | uint32](pid N, name string) []byte {
	b, _ := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + name)
	return b
}

// field is the last number in a line of a file of /proc; 0 where there is no such line.
func field(b []byte, name string) int {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			words := bytes.Fields(rest)
			if len(words) > 0 {
				n, _ := strconv.Atoi(string(words[len(words)-1]))
				return n
			}
		}
	}
	return 0
}

// process is the one that a thread is of.
func process(thread uint32) (p Process) {
	if p.Host = field(file(thread, "status"), "Tgid:"); p.Host > 0 {
		p.PID, p.Program = field(file(p.Host, "status"), "NSpid:"), programOf(p.Host)
	}
	return p
}

// programOf is the name of what a process executes, with how it was called where that is another name.
func programOf(process int) string {
	name := string(bytes.TrimSuffix(file(process, "comm"), []byte("\n")))
	called, _, _ := bytes.Cut(file(process, "cmdline"), []byte{0})
	text := escape.Printable(name)
	if base := path.Base(string(called)); len(called) > 0 && base != name {
		text += " (" + escape.Printable(string(called)) + ")"
	}
	return text
}
