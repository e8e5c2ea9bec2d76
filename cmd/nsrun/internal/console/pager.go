//go:build linux

package console

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
)

// If standard output is a terminal, long output goes through a pager: $NSRUN_PAGER, else $PAGER, else less. Control
// characters in untrusted text are then escaped. Otherwise every byte is written unchanged.

// Output is standard output, through a pager if there is one.
type Output struct {
	*bufio.Writer
	Terminal bool
	pager    *exec.Cmd // nil: none
	pipe     io.WriteCloser
	signals  chan os.Signal
	escaped  *escaper // nil: Shown was not called, or there is no terminal
}

// OpenOutput opens standard output, and starts a pager if one is to be used.
func OpenOutput() *Output {
	o := &Output{Terminal: IsTerminal(os.Stdout)}
	to := io.Writer(os.Stdout)
	if o.Terminal && o.page() {
		to = o.pipe
	}
	o.Writer = bufio.NewWriterSize(to, 64<<10)
	return o
}

func (o *Output) page() bool {
	command := "less"
	for _, name := range [...]string{"PAGER", "NSRUN_PAGER"} {
		if value, set := os.LookupEnv(name); set {
			command = value
		}
	}
	if command = strings.TrimSpace(command); command == "" || command == "cat" || os.Getenv("TERM") == "dumb" {
		return false
	}
	words := strings.Fields(command)
	if _, err := exec.LookPath(words[0]); err != nil {
		return false
	}
	o.pager = exec.Command("/bin/sh", "-c", command) // the command may have options
	o.pager.Stdout, o.pager.Stderr = os.Stdout, os.Stderr
	o.pager.Env = os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		o.pager.Env = append(o.pager.Env, "LESS=FRX")
	}
	pipe, err := o.pager.StdinPipe()
	if err != nil || o.pager.Start() != nil {
		o.pager = nil
		return false
	}
	o.pipe = pipe
	// Ctrl-C is for the pager, so nsrun ignores it.
	o.signals = make(chan os.Signal, 1)
	signal.Notify(o.signals, unix.SIGINT, unix.SIGQUIT)
	return true
}

// Close writes the rest, and waits for the pager. It is not an error if the pager ended before it read everything.
func (o *Output) Close() error {
	if o.escaped != nil {
		_ = o.escaped.flush() // Flush returns the error too
	}
	err := o.Flush()
	if o.pager != nil {
		_ = o.pipe.Close()
		_ = o.pager.Wait() // the pager prints its own errors
		signal.Stop(o.signals)
	}
	return Unwanted(err)
}

// Unwanted returns err, or nil if err says that the reader has closed the pipe.
func Unwanted(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}

// An escaper is a writer that escapes control characters other than tabs and newlines.
type escaper struct {
	to   io.Writer
	rest []byte // the beginning of a character whose other bytes were not written yet
}

// Shown returns the writer for untrusted text.
func (o *Output) Shown() io.Writer {
	if !o.Terminal {
		return o
	}
	o.escaped = &escaper{to: o}
	return o.escaped
}

func (e *escaper) Write(text []byte) (int, error) {
	n := len(text)
	text = append(e.rest, text...)
	e.rest = nil
	// At most three bytes may wait for the rest of their character.
	for i := max(0, len(text)-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			text, e.rest = text[:i], bytes.Clone(text[i:])
			break
		}
	}
	for line := range bytes.Lines(text) {
		end := line[len(bytes.TrimSuffix(line, []byte("\n"))):]
		if _, err := e.to.Write(append(bytes.Clone(EscapeControls(line[:len(line)-len(end)])), end...)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// flush writes the bytes of an incomplete character.
func (e *escaper) flush() error {
	_, err := e.to.Write(EscapeControls(e.rest))
	e.rest = nil
	return err
}

// EscapeControls escapes characters that a terminal would act on, or that make it show something else than the text.
func EscapeControls(text []byte) []byte {
	plain := true
	for _, b := range text {
		if b < ' ' && b != '\t' || b >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var out []byte
	for len(text) > 0 {
		_, n := utf8.DecodeRune(text)
		if text[0] == '\t' {
			out = append(out, '\t')
		} else {
			out = append(out, escape.Printable(string(text[:n]))...)
		}
		text = text[n:]
	}
	return out
}
