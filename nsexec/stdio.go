//go:build linux

package nsexec

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// The command's standard streams.

// headTail keeps the beginning and the end of what is written to it.
type headTail struct {
	head, tail []byte
	cut        int64
}

// keepStderr is how much of each end is kept, as in os/exec.
const keepStderr = 32 << 10

func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	if room := keepStderr - len(h.head); room > 0 {
		k := min(room, len(p))
		h.head = append(h.head, p[:k]...)
		p = p[k:]
	}
	h.tail = append(h.tail, p...)
	if over := len(h.tail) - keepStderr; over > 0 {
		h.cut += int64(over)
		h.tail = append(h.tail[:0], h.tail[over:]...)
	}
	return n, nil
}

func (h *headTail) bytes() []byte {
	if h.cut == 0 {
		return append(h.head, h.tail...)
	}
	out := append(h.head, "\n... omitting "...)
	out = append(out, itoa(h.cut)...)
	out = append(out, " bytes ...\n"...)
	return append(out, h.tail...)
}

// StdinPipe returns a pipe to the command's standard input. Wait closes it.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if err := c.pipeAllowed("Stdin", c.Stdin != nil); err != nil {
		return nil, err
	}
	r, w, err := c.inPipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = r
	return w, nil
}

// inPipe makes a pipe to the command, whose end is r.
func (c *Cmd) inPipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		c.childFiles = append(c.childFiles, r)
		c.parentFiles = append(c.parentFiles, w)
	}
	return r, w, err
}

// StdoutPipe returns a pipe from the command's standard output. Wait closes it, so read everything
// before you call Wait.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	return c.pipeOf("Stdout", &c.Stdout)
}

// StderrPipe is like StdoutPipe, for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	return c.pipeOf("Stderr", &c.Stderr)
}

func (c *Cmd) pipeOf(what string, output *io.Writer) (io.ReadCloser, error) {
	if err := c.pipeAllowed(what, *output != nil); err != nil {
		return nil, err
	}
	r, w, err := c.outPipe()
	if err != nil {
		return nil, err
	}
	*output = w
	return r, nil
}

// outPipe makes a pipe from the command, whose end is w.
func (c *Cmd) outPipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		c.childFiles = append(c.childFiles, w)
		c.parentFiles = append(c.parentFiles, r)
	}
	return r, w, err
}

func (c *Cmd) pipeAllowed(what string, set bool) error {
	switch {
	case set:
		return &Error{Op: "start", Path: c.Path, Err: errors.New(what + " already set")}
	case c.started:
		return &Error{Op: "start", Path: c.Path, Err: errors.New(what + " pipe after Start")}
	}
	return nil
}

// files returns the command's descriptors, from 0 on; nil: closed.
func (c *Cmd) files() ([]*os.File, error) {
	in, err := c.stdin()
	if err != nil {
		return nil, err
	}
	out, err := c.writer(c.Stdout)
	if err != nil {
		return nil, err
	}
	errFile := out
	if c.Stderr == nil || !sameWriter(c.Stderr, c.Stdout) {
		if errFile, err = c.writer(c.Stderr); err != nil {
			return nil, err
		}
	}
	files := slices.Concat([]*os.File{in, out, errFile}, c.ExtraFiles, c.Layers)
	if c.opt.Masks != nil {
		files = append(files, c.opt.Masks)
	}
	return files, nil
}

// sameWriter compares two writers, without the panic for types that cannot be compared.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// null is /dev/null, opened once. Not with os.OpenFile, which asks the poller whether it can wait for it.
func (c *Cmd) null() (*os.File, error) {
	if c.devNull == nil {
		fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
		}
		c.devNull = os.NewFile(uintptr(fd), os.DevNull)
		c.childFiles = append(c.childFiles, c.devNull)
	}
	return c.devNull, nil
}

func (c *Cmd) stdin() (*os.File, error) {
	if c.Stdin == nil {
		return c.null()
	}
	if f, ok := c.Stdin.(*os.File); ok {
		return f, nil
	}
	r, w, err := c.inPipe()
	if err != nil {
		return nil, err
	}
	c.copies = append(c.copies, func() copied {
		_, err := io.Copy(w, c.Stdin)
		// A command need not read all of its input.
		if errors.Is(err, unix.EPIPE) {
			err = nil
		}
		if err1 := w.Close(); err == nil && !errors.Is(err1, os.ErrClosed) {
			err = err1
		}
		return copied{err: err}
	})
	return r, nil
}

func (c *Cmd) writer(w io.Writer) (*os.File, error) {
	if w == nil {
		return c.null()
	}
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	pr, pw, err := c.outPipe()
	if err != nil {
		return nil, err
	}
	c.outputs = append(c.outputs, pr)
	c.copies = append(c.copies, func() copied {
		err := copyOutput(w, pr)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = copyRest(w, pr)
		}
		_ = pr.Close()
		return copied{true, err}
	})
	return pw, nil
}

// copyBuffers are buffers of io.Copy's size: most commands write less than it takes to make one.
var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyOutput is io.Copy, which makes a buffer for each call unless w can read from the pipe by itself.
func copyOutput(w io.Writer, r *os.File) error {
	if _, ok := w.(io.ReaderFrom); ok {
		_, err := io.Copy(w, r)
		return err
	}
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, buf[:])
	return err
}

func closeAll(cs []io.Closer) {
	for _, c := range cs {
		_ = c.Close()
	}
}

func (c *Cmd) beginCopies() {
	c.copyErrs = make(chan copied, len(c.copies))
	for _, f := range c.copies {
		go func() { c.copyErrs <- f() }()
	}
}

// copied is how a copying goroutine ended.
type copied struct {
	output bool // of the command
	err    error
}

// copyRest copies what is in a pipe, and returns exec.ErrWaitDelay if somebody can still write to it.
func copyRest(w io.Writer, r *os.File) error {
	raw, err := r.SyscallConn()
	if err == nil {
		err = r.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	most, buf := 0, []byte(nil)
	for begun := false; ; begun = true {
		n := 0
		cerr := raw.Read(func(fd uintptr) bool {
			if !begun {
				most, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
				buf = make([]byte, most+1)
			}
			err = sys.Retry(func() (err error) { n, err = unix.Read(int(fd), buf[:most+1]); return err })
			return true
		})
		if cerr != nil || err != nil || n == 0 {
			if err == unix.EAGAIN {
				err = exec.ErrWaitDelay
			}
			return cmp.Or(cerr, err)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		if most -= n; most < 0 { // it is being written to
			return exec.ErrWaitDelay
		}
	}
}

// drainTime is how long the output that is in a pipe at the end of WaitDelay may take to be copied, if WaitDelay is not
// longer: on a busy machine it is not there because it was not read yet.
const drainTime = 2 * time.Second

// awaitCopies waits for the copying goroutines, as long as WaitDelay allows. Then what is in the pipes is copied, and
// no more: processes outside that got an end of a pipe may hold it for ever.
func (c *Cmd) awaitCopies() (first error) {
	var end *time.Timer
	var timeout <-chan time.Time
	if c.WaitDelay > 0 && len(c.copies) > 0 {
		end = time.NewTimer(c.WaitDelay)
		defer end.Stop()
		timeout = end.C
	}
	late, outputs := false, len(c.outputs)
	for n := len(c.copies); n > 0; {
		select {
		case d := <-c.copyErrs:
			n--
			first = cmp.Or(first, d.err)
			if d.output {
				outputs--
			}
		case <-timeout:
			if late {
				outputs = 0
			}
			late = true
			for _, r := range c.outputs {
				_ = r.SetReadDeadline(time.Unix(1, 0)) // see copyRest
			}
			end.Reset(max(c.WaitDelay, drainTime))
		}
		if late && outputs == 0 && n > 0 {
			// Closing this process's ends of the pipes ends the copying.
			closeAll(c.parentFiles)
			return exec.ErrWaitDelay
		}
	}
	return first
}
