//go:build linux

package screen

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// An Event is one thing that happened. Exactly one of its fields is set. The zero Event means that the window has
// another size, or has to be drawn again.
type Event struct {
	Key    Key
	Paste  string         // what was pasted, as it is, cut off if it is long
	Signal syscall.Signal // one that ends programs
	Err    error          // nothing can be read from the terminal any more
}

var (
	// ErrNoTerminal says that there is no terminal.
	ErrNoTerminal = errors.New("there is no terminal")

	// ErrDumb says that TERM names a terminal that cannot show a screen.
	ErrDumb = errors.New("TERM says that the terminal can only print lines")
)

// A Screen is the terminal while this program owns it.
type Screen struct {
	tty     *os.File
	colours bool
	events  chan Event
	signals chan os.Signal
	stop    chan struct{} // closed by Close
	done    sync.WaitGroup

	continued chan struct{} // SIGCONT came

	reading sync.Mutex // held while something is read
	input   struct {   // guards the deadline of reads
		sync.Mutex
		off bool // reads end at once
	}

	mu     sync.Mutex
	before *unix.Termios // nil: the terminal is not ours, now or any more
	shown  []string      // the rows as they were written
	width  int
}

const (
	// Another screen with the cursor hidden, no wrapping, pasted text marked as such.
	begin = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[0m\x1b[2J"
	end   = "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"

	// escapeTime is how long after the Escape character the rest of a key may come.
	escapeTime = 40 * time.Millisecond

	// stopTime is how long after SIGTSTP nothing is done, if nobody says that it is over before.
	stopTime = 500 * time.Millisecond
)

// Open takes the terminal, and discards what was typed before.
func Open() (*Screen, error) {
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return nil, ErrDumb
	}
	tty, err := openTerminal()
	if err != nil {
		return nil, err
	}
	s := &Screen{
		tty: tty, colours: os.Getenv("NO_COLOR") == "",
		events: make(chan Event, 64), signals: make(chan os.Signal, 16), stop: make(chan struct{}), continued: make(chan struct{}, 1),
	}
	// First, so that none ends the program while the program uses the terminal. Not SIGTSTP: once it was
	// asked for, the runtime never again lets it stop the program.
	signal.Notify(s.signals, unix.SIGWINCH, unix.SIGCONT, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	if err := s.enter(unix.TCSETSF); err != nil {
		signal.Stop(s.signals)
		return nil, errors.Join(err, tty.Close())
	}
	s.done.Add(2)
	go s.read()
	go s.watch()
	return s, nil
}

// openTerminal opens the controlling terminal, or a terminal that is standard input, output or error, as a file of its
// own: changes to it do not affect those.
func openTerminal() (*os.File, error) {
	for _, name := range []string{"/dev/tty", "/proc/self/fd/0", "/proc/self/fd/2", "/proc/self/fd/1"} {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		_ = unix.Close(fd)
	}
	return nil, ErrNoTerminal
}

// control calls f with the descriptor, which stays as it is.
func (s *Screen) control(f func(fd int) error) error {
	c, err := s.tty.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := c.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// enter makes the terminal ours: how is TCSETS, or TCSETSF to throw away what was typed.
func (s *Screen) enter(how uint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.control(func(fd int) error {
		mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		raw := *mode
		if s.before != nil { // somebody stopped and continued us without our help
			raw = *s.before
			mode = s.before
		}
		raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		raw.Oflag &^= unix.OPOST
		raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		if err := retry(func() error { return unix.IoctlSetTermios(fd, how, &raw) }); err != nil {
			return err
		}
		s.before, s.shown = mode, nil
		_, err = s.tty.WriteString(begin)
		return err
	})
}

// leave restores the terminal; a second call does nothing.
func (s *Screen) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	err := sys.FromBackground(func() error {
		_, werr := s.tty.WriteString(end)
		return errors.Join(werr, s.control(func(fd int) error {
			return retry(func() error { return unix.IoctlSetTermios(fd, unix.TCSETS, s.before) })
		}))
	})
	s.before = nil
	return err
}

func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// Close ends the screen and restores the terminal. Closing again does nothing.
func (s *Screen) Close() error {
	err := s.leave()
	select {
	case <-s.stop:
		return err
	default:
	}
	close(s.stop)
	signal.Stop(s.signals)
	s.setInput(false)
	s.done.Wait()
	return errors.Join(err, s.tty.Close())
}

// Guard, deferred at the top of a goroutine, restores the terminal if that goroutine panics. The panic continues.
func (s *Screen) Guard() {
	if r := recover(); r != nil {
		_ = s.leave()
		panic(r)
	}
}

func (s *Screen) Events() <-chan Event { return s.events }

// Size returns the window's size, 80 by 24 if the terminal does not know it.
func (s *Screen) Size() (width, height int) {
	var w *unix.Winsize
	err := s.control(func(fd int) (err error) {
		w, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	})
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

// Suspend restores the terminal and stops the process group, as Ctrl-Z does. When somebody continues the process, it
// takes the terminal again. If no shell could continue it, the kernel does not stop it.
func (s *Screen) Suspend() error {
	// A read that had begun when we were in the foreground could still take what is typed for the shell.
	s.setInput(false)
	s.reading.Lock()
	defer s.reading.Unlock()
	defer s.setInput(true)
	if err := s.leave(); err != nil {
		return err
	}
	select {
	case <-s.continued:
	default:
	}
	// All of the group: the shell waits for the first of it. Another thread than this
	// one may take the signal, so that this one is stopped a moment later.
	if err := unix.Kill(0, unix.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-s.continued:
	case <-time.After(stopTime):
	}
	return s.enter(unix.TCSETSF)
}

// send returns false when the screen was closed.
func (s *Screen) send(e Event) bool {
	select {
	case s.events <- e:
		return true
	case <-s.stop:
		return false
	}
}

// setInput allows reads, or ends them.
func (s *Screen) setInput(on bool) {
	s.input.Lock()
	defer s.input.Unlock()
	s.input.off = !on
	if !on {
		_ = s.tty.SetReadDeadline(time.Unix(1, 0))
	}
}

// readUntil reads what was typed, and waits for it until the limit. The zero limit is no limit.
func (s *Screen) readUntil(limit time.Time, b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.input.Lock()
	if !s.input.off {
		_ = s.tty.SetReadDeadline(limit)
	}
	s.input.Unlock()
	return s.tty.Read(b)
}

// watch turns signals into events.
func (s *Screen) watch() {
	defer s.done.Done()
	defer s.Guard()
	for {
		var sig os.Signal
		select {
		case <-s.stop:
			return
		case sig = <-s.signals:
		}
		var e Event
		switch sig {
		case unix.SIGWINCH:
			s.mu.Lock()
			s.shown = nil
			s.mu.Unlock()
		case unix.SIGCONT:
			select {
			case s.continued <- struct{}{}:
			default:
			}
			s.mu.Lock()
			ours := s.before != nil
			s.mu.Unlock()
			if ours {
				if err := s.enter(unix.TCSETS); err != nil {
					e.Err = err
				}
			}
		default:
			e.Signal = sig.(syscall.Signal)
		}
		if !s.send(e) {
			return
		}
	}
}

// read turns what is typed into events.
func (s *Screen) read() {
	defer s.done.Done()
	defer s.Guard()
	var buf []byte
	var limit time.Time
	chunk := make([]byte, 4096)
	for {
		n, err := s.readUntil(limit, chunk)
		buf = append(buf, chunk[:n]...)
		// A key that is not complete is what it is if the rest does not follow.
		last := errors.Is(err, os.ErrDeadlineExceeded)
		for len(buf) > 0 {
			in, n := decode(buf, last)
			if n == 0 {
				break
			}
			buf = buf[n:]
			if (in.key != "" || in.paste != "") && !s.send(Event{Key: in.key, Paste: in.paste}) {
				return
			}
		}
		if tail := len(buf) - len(pasteEnd); tail > 2*maxPaste { // only a pasted text can be that long
			buf = append(append([]byte(pasteBegin), buf[len(pasteBegin):][:maxPaste]...), buf[tail:]...)
		}
		select {
		case <-s.stop:
			return
		default:
		}
		switch {
		case err == nil || last:
		default:
			s.send(Event{Err: err})
			return
		}
		limit = time.Time{}
		if len(buf) > 0 && !bytes.HasPrefix(buf, []byte(pasteBegin)) {
			limit = time.Now().Add(escapeTime)
		}
	}
}

// Draw shows the lines, from the top. It does not rewrite what is on the screen already.
func (s *Screen) Draw(lines []Line) error {
	width, height := s.Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	var b strings.Builder
	if len(s.shown) != height || s.width != width {
		s.shown, s.width = make([]string, height), width
		b.WriteString("\x1b[0m\x1b[2J")
	}
	for i := range height {
		row := ""
		if i < len(lines) {
			row = s.render(lines[i], width)
		}
		if s.shown[i] != row {
			s.shown[i] = row
			b.WriteString("\x1b[" + strconv.Itoa(i+1) + ";1H\x1b[2K" + row)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := s.tty.WriteString(b.String())
	return err
}

// render writes a line for the terminal. Everything that is not ours goes through Fit once more, which does not change
// output of Fit.
func (s *Screen) render(line Line, width int) string {
	var b strings.Builder
	col := 0
	for _, span := range line {
		if span.At > 0 && span.At < width {
			// What is left of it may be wider than we think.
			b.WriteString("\x1b[" + strconv.Itoa(span.At+1) + "G\x1b[K")
			col = span.At
		}
		for _, part := range Fit(span.Text, span.Style, 0, width-col, -1) {
			b.WriteString(s.style(part.Style))
			b.WriteString(part.Text)
			if part.Style != 0 {
				b.WriteString("\x1b[0m")
			}
			col += Width(part.Text)
		}
	}
	return b.String()
}

// style returns the sequence that begins a style.
func (s *Screen) style(st Style) string {
	var codes []string
	add := func(code string) { codes = append(codes, code) }
	if st&Bold != 0 {
		add("1")
	}
	if st&Dim != 0 {
		add("2")
	}
	if st&Reverse != 0 {
		add("7")
	}
	if s.colours {
		switch st & colours {
		case Red:
			add("31")
		case Green:
			add("32")
		case Yellow:
			add("33")
		case Cyan:
			add("36")
		}
	}
	if codes == nil {
		return ""
	}
	return "\x1b[" + strings.Join(codes, ";") + "m"
}
