//go:build linux

// Package ask asks a person a question on their terminal. It imports internal/sys only, and does not decide what
// to ask.
//
// Each question opens the controlling terminal: standard input may be anything, and belongs to commands. Input that was
// typed before the question does not answer it, and no answer is never a yes.
package ask

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal says that there is nobody to ask.
var ErrNoTerminal = errors.New("no terminal")

// turn is the terminal: there is one, whoever asks in this program.
var turn = make(chan struct{}, 1)

// Open opens the controlling terminal.
func Open() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0) }

// Control calls f with the descriptor, which stays as it is.
func Control(tty *os.File, f func(fd int) error) error {
	c, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := c.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// take waits for the caller's turn and opens the terminal, until give.
func take(ctx context.Context) (*os.File, error) {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	tty, err := Open()
	if err != nil {
		<-turn
		return nil, ErrNoTerminal
	}
	return tty, nil
}

func give(tty *os.File) {
	_ = tty.Close()
	<-turn
}

// Line asks on the terminal and returns the answer in lower case, without space around it. Without a terminal the error
// is ErrNoTerminal; where ctx ends first, its error. Questions of several goroutines are asked one after the other. The
// question must be printable, see package escape. It is written again when this program continues after Ctrl-Z: nobody
// sees any more that something was asked.
func Line(ctx context.Context, question string) (string, error) {
	tty, err := take(ctx)
	if err != nil {
		return "", err
	}
	defer give(tty)
	if err := Control(tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }); err != nil {
		return "", err
	}
	defer repeat(tty, question)()
	return answer(ctx, tty, question)
}

// repeat writes a question again each time that this program continues, until stop.
func repeat(tty *os.File, question string) (stop func()) {
	continued, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(continued, unix.SIGCONT)
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-continued:
				fmt.Fprintf(tty, "%s ", question)
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(continued)
		close(done)
		writer.Wait()
	}
}

// answer writes what ends in a question, and reads a line.
func answer(ctx context.Context, tty *os.File, question string) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Now()) })()
	fmt.Fprintf(tty, "%s ", question)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil {
		fmt.Fprintln(tty)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", err
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}
