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

// Unread keeps SIGPIPE from ending this program, so that it finishes its work even if nobody reads its output. Commands
// that it runs still get the default action of SIGPIPE, unless our caller ignores the signal.
func Unread() {
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
}

// ending returns the signals that end programs, except those that our caller ignores, as nohup(1) does.
func ending() []os.Signal {
	return slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}, signal.Ignored)
}

// Interruptible returns a context that the first signal cancels. Until stop is called, signals have no other effect.
func Interruptible() (ctx context.Context, stop func()) { return interruptible(0, "") }

// Insistent is like Interruptible, but the first signal only prints a line, and the second one cancels the context: the
// user may have pressed Ctrl-C to stop a command that had just ended.
func Insistent(first string) (ctx context.Context, stop func()) { return interruptible(1, first) }

func interruptible(warnings int, text string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range ending() { // one by one: Notify without signals means all of them
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

// EndBy ends this program by a signal, so that its parent sees the signal in the wait status.
func EndBy(sig syscall.Signal) {
	signal.Reset(sig)
	runtime.LockOSThread() // this thread gets the signal before the call returns
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// Forwarded are the signals that nsrun forwards to the command.
var Forwarded = [...]os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}
