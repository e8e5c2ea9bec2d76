//go:build linux

package console

import (
	"context"
	"os"
	"os/signal"
	"runtime"
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

// Interruptible is a context that ends when the user has had enough. Until stop is
// called signals do nothing else: what must not be interrupted is not.
func Interruptible() (ctx context.Context, stop func()) {
	return signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
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
