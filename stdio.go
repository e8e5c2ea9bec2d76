//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// opensNothing refuses standard descriptors that would give the command more access: a directory, through which it
// could reach everything below; and a network socket, which belongs to the host's network, and which the command could
// connect to any host.
func opensNothing(name string, file any, network bool) error {
	f, ok := file.(*os.File)
	if !ok || f == nil {
		return nil
	}
	var st unix.Stat_t
	domain := unix.AF_UNIX
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) {
			_ = unix.Fstat(int(fd), &st)
			if d, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
				domain = d
			}
		})
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%s is a directory", name)
	}
	if err == nil && domain != unix.AF_UNIX && !network {
		return fmt.Errorf("%s is a network socket, which the command could connect to any host: use a pipe instead", name)
	}
	return nil
}

// present is v, or nil for a nil *os.File: to pass that on would close the descriptor of the command.
func present[T any](v T) (none T) {
	if f, isFile := any(v).(*os.File); isFile && f == nil {
		return none
	}
	return v
}

// connect gives the command its standard descriptors.
func (x *Execution) connect() error {
	q, cmd := &x.request, x.cmd
	q.Stdin, q.Stdout, q.Stderr = present(q.Stdin), present(q.Stdout), present(q.Stderr)
	for _, s := range [...]struct {
		name string
		file any
	}{{"standard input", q.Stdin}, {"standard output", q.Stdout}, {"standard error", q.Stderr}} {
		if err := opensNothing(s.name, s.file, q.Network); err != nil {
			return err
		}
		if _, isFile := s.file.(*os.File); q.Passthrough && s.file != nil && !isFile {
			return &Error{Op: "run", Err: fmt.Errorf("%s is not a file, and cannot be passed through", s.name)}
		}
	}
	if q.Passthrough {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = q.Stdin, q.Stdout, q.Stderr
		if x.meter != nil {
			cmd.Stdout = x.meter.through(q.Stdout)
			if q.Stderr != nil {
				x.metered = newCapture(0, nil)
				cmd.Stderr = x.meter.through(io.MultiWriter(q.Stderr, x.metered))
			}
		}
		return nil
	}
	limit := x.runner.config.MaxOutput
	x.stdout = newCapture(limit, q.Stdout)
	cmd.Stdout = x.meter.through(x.stdout)
	if q.Merge {
		cmd.Stderr = cmd.Stdout
	} else {
		x.stderr = newCapture(limit, q.Stderr)
		if sameWriter(q.Stdout, q.Stderr) {
			x.stderr.reader = x.stdout.reader
		}
		cmd.Stderr = x.meter.through(x.stderr)
	}
	if _, isFile := q.Stdin.(*os.File); isFile || q.Stdin == nil {
		cmd.Stdin = q.Stdin
		return nil
	}
	// nsexec would wait for the reader, so this is done here.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin = r
	x.stdin = [2]*os.File{r, w}
	return nil
}

// beginFeed begins to feed a command that was started, if it has a pipe for its standard input.
func (x *Execution) beginFeed() {
	if r, w := x.stdin[0], x.stdin[1]; r != nil {
		_ = r.Close()
		go x.feed(w)
	}
}

// feed copies to the command's standard input until either side has no more. An error of the reader is kept: the
// command cannot tell it from the end of its input.
func (x *Execution) feed(w *os.File) {
	_, err := io.Copy(w, x.request.Stdin)
	pe, isPath := errors.AsType[*os.PathError](err)
	refused := isPath && pe.Path == w.Name() && (pe.Err == os.ErrClosed || pe.Err == unix.EPIPE)
	if err != nil && !refused {
		x.unread.Store(&err) // before the command can see the end
	}
	_ = w.Close()
}
