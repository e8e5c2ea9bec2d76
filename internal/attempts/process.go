//go:build linux

package attempts

import (
	"bytes"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// file reads a file of a process in /proc. Nil: there is none.
func file[N int | uint32](pid N, name string) []byte {
	b, _ := os.ReadFile(notify.Proc(pid, name))
	return b
}

// kilobytes returns the number of bytes in a line of a file of /proc that counts kilobytes.
func kilobytes(b []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(b, []byte(name))
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(words[0]), 10, 64)
	return n << 10
}

func process(thread uint32) (p Process) {
	if p.Host = notify.Last(file(thread, "status"), "Tgid:"); p.Host > 0 {
		status := file(p.Host, "status")
		p.PID, p.Parent, p.Program = notify.Last(status, "NSpid:"), notify.Last(status, "PPid:"), programOf(p.Host)
		p.In, p.Out, p.Threads = stream(p.Host, "0"), stream(p.Host, "1"), notify.Last(status, "Threads:")
		p.Background = ignores(status) && !ignores(file(p.Parent, "status"))
		const mostKin, mostAbove = 4, 16
		for q := p.Parent; q > 1 && len(p.Above) < mostAbove; {
			status := file(q, "status")
			if notify.Last(status, "NSpid:") == 1 {
				break
			}
			if len(p.Kin) == len(p.Above) && len(p.Kin) < mostKin && programOf(q) == p.Program {
				p.Kin = append(p.Kin, q)
			}
			p.Above = append(p.Above, q)
			q = notify.Last(status, "PPid:")
		}
	}
	return p
}

// ignores reports whether a process ignores the signals of a terminal's keys, by its status file.
func ignores(status []byte) bool {
	const keys = 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1)
	_, rest, _ := bytes.Cut(status, []byte("SigIgn:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return mask&keys == keys
}

// stream returns /proc's name of an open file.
func stream(process int, number string) string {
	name, _ := os.Readlink(notify.Proc(process, "fd/"+number))
	return name
}

// mostCommandLine is how much of a command line is read, in bytes: a process can make its own as long as its address
// space (PR_SET_MM_MAP of prctl(2)).
const mostCommandLine = 4 << 10

// programOf returns the name of a process's program, followed by the name that it was called by if that differs.
func programOf(process int) string {
	name := string(bytes.TrimSuffix(file(process, "comm"), []byte("\n")))
	line, _ := sys.Head(notify.Proc(process, "cmdline"), make([]byte, mostCommandLine))
	called, _, _ := bytes.Cut(line, []byte{0})
	text := escape.Printable(name)
	if base := path.Base(string(called)); len(called) > 0 && base != name {
		text += " (" + escape.Printable(string(called)) + ")"
	}
	return text
}
