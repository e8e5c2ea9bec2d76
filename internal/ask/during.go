//go:build linux

package ask

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// ErrBackground says that the terminal belongs to another program just now.
var ErrBackground = errors.New("the terminal is in use by another program")

// usual ends what a command may have begun on the terminal, and makes text visible: strings end, and with them the
// colours, the margins, the character sets, the link and the palette that it has set.
const usual = "\x18\x1b\\\x1b[?2026l\x1b[!p\x1b[0$}\x1b]8;;\x1b\\\x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]R\x1b\\\x0f\x1b(B\x1b[0m\r\n"

// During is Line while a command runs that has the terminal too, and may have changed its mode, its colours, and who is
// in the foreground. All of that is as usual for the question, and the command's again afterwards. The command must be
// stopped: else it could read the answer, or write over the question. Ctrl-Z does nothing, because continuing after it
// would continue the command too.
func During(ctx context.Context, question string) (string, error) {
	tty, err := take(ctx)
	if err != nil {
		return "", err
	}
	defer give(tty)
	var before *unix.Termios
	err = Control(tty, func(fd int) (err error) {
		before, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil {
		return "", err
	}
	back, err := foreground(tty)
	if err != nil {
		return "", err
	}
	defer back()
	if err := Control(tty, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETSF, sane(before)) }); err != nil {
		return "", err
	}
	defer func() {
		_ = Control(tty, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETSF, before) })
	}()
	begin := "\r\n"
	if os.Getenv("TERM") != "dumb" {
		begin = usual
	}
	return answer(ctx, tty, begin+question)
}

// sane is a mode in which a line can be typed and seen, whatever the mode was.
func sane(before *unix.Termios) *unix.Termios {
	mode := *before
	mode.Iflag |= unix.ICRNL | unix.BRKINT
	mode.Iflag &^= unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IUCLC
	mode.Oflag |= unix.OPOST | unix.ONLCR
	mode.Oflag &^= unix.OLCUC | unix.OCRNL | unix.ONLRET
	mode.Lflag |= unix.ICANON | unix.ISIG | unix.ECHO | unix.ECHOE | unix.ECHOK
	mode.Lflag &^= unix.ECHONL | unix.NOFLSH | unix.TOSTOP | unix.XCASE | unix.FLUSHO | unix.EXTPROC
	for at, c := range map[int]byte{
		unix.VINTR: 3, unix.VQUIT: 28, unix.VERASE: 127, unix.VKILL: 21, unix.VEOF: 4, unix.VEOL: 0, unix.VEOL2: 0,
		unix.VSTART: 17, unix.VSTOP: 19, unix.VSUSP: 0, unix.VREPRINT: 18, unix.VWERASE: 23, unix.VLNEXT: 22,
	} {
		mode.Cc[at] = c
	}
	return &mode
}

// foreground puts our process group in the foreground, if a group of a sandbox is there; back undoes that.
func foreground(tty *os.File) (back func(), err error) {
	back = func() {}
	group, own := 0, unix.Getpgrp()
	err = Control(tty, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	switch {
	case err != nil:
		return back, err
	case group == own:
		return back, nil
	case !nested(group):
		return back, ErrBackground
	}
	set := func(group int) error {
		return sys.FromBackground(func() error {
			return Control(tty, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) })
		})
	}
	if err := set(own); err != nil {
		return back, err
	}
	return func() { _ = set(group) }, nil // it may be gone
}

// nested reports whether the leader of a process group is in a PID namespace below this program's.
func nested(group int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(group) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ids)) > 1
		}
	}
	return false
}
