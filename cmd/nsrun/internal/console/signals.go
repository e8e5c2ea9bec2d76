//go:build linux

package console

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unread has this program go on where nobody reads what it prints: what was asked for is done all the same, and the
// exit status tells of it. A command that is run ends by SIGPIPE as ever, unless our caller ignores that.
func Unread() {
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
}

// ending are the signals by which users and systems end programs, but those that our caller ignores (nohup).
func ending() []os.Signal {
	return slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}, signal.Ignored)
}

// Interruptible is a context that ends when the user has had enough. Until stop is
// called signals do nothing else: what must not be interrupted is not.
func Interruptible() (ctx context.Context, stop func()) { return interruptible(0, "") }

// Insistent is Interruptible for what a key that was meant for a command that has just ended should not interrupt: the
// first signal prints a line, the second ends the context.
func Insistent(first string) (ctx context.Context, stop func()) { return interruptible(1, first) }

func interruptible(warnings int, text string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range ending() { // none of them: Notify would take all signals
		signal.Notify(signals, s)
	}
	go func() {
		defer close(done)
		for left := warnings; ; left-- {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if left == 0 {
				cancel()
				return
			}
			Say("%s", text)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
		<-done
	}
}

// EndBy ends this program by a signal, so that whoever waits for it sees that.
func EndBy(sig syscall.Signal) {
	signal.Reset(sig)
	runtime.LockOSThread() // the thread that gets it, before the call returns
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// Forwarded are the signals that go on to the command.
var Forwarded = [...]os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}
