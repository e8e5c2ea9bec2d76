//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread has this program go on where nobody reads what it prints: what was asked for is done all the same, and the
// exit status tells of it. A command that is run ends by SIGPIPE as ever, unless our caller ignores that.
func unread() {
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
}

// interruptible is a context that ends when the user has had enough. Until stop is
// called signals do nothing else: what must not be interrupted is not.
func interruptible() (ctx context.Context, stop func()) {
	return signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
}

// forwarded are the signals that go on to the command.
var forwarded = [...]os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}
