//go:build linux

package console

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/stuck"
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

// RelaySignals lets signals end this program also where its main thread waits for a file system that does not answer.
func RelaySignals() {
	stuck.Relay(func(c stuck.Calls) {
		time.Sleep(Patience / 20) // a call that returns is no reason to say anything
		if text, _ := Waits(c); text != "" {
			Say("%s", strings.TrimSuffix(text, "; "))
		}
	}, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
}

// Patience is how long after a signal this program may take to end in order.
const Patience = 2 * time.Second

// Interruptible returns a context that the first signal cancels. What is still not done after Patience is ended by
// another signal: the next nsrun finishes or takes back what was begun. Until stop is called, signals have no other
// effect.
func Interruptible() (ctx context.Context, stop func()) {
	return interruptible(0, "", "the next nsrun finishes what was begun, or takes it back")
}

// Insistent is like Interruptible, but the first signal only prints a line, and the second one cancels the context: the
// user may have pressed Ctrl-C to stop a command that had just ended. lost says what happens if another one ends this
// program.
func Insistent(first, lost string) (ctx context.Context, stop func()) {
	return interruptible(1, first, lost)
}

func interruptible(warnings int, text, lost string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, stopped, done := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	for _, s := range ending() { // one by one: Notify without signals means all of them
		signal.Notify(signals, s)
	}
	go func() {
		defer close(done)
		for left := warnings; ; left-- {
			select {
			case <-stopped:
				return
			case <-signals:
			}
			if left == 0 {
				cancel()
				EndBySecond(signals, stopped, lost)
				return
			}
			Say("%s", text)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancel()
	}
}

// EndBySecond is for what a signal has asked to end. If that is not done after Patience, it prints what for, and the
// next signal ends this program. lost says what happens then to what was begun.
func EndBySecond(signals <-chan os.Signal, done <-chan struct{}, lost string) {
	before := stuck.Now()
	select {
	case <-done:
		return
	case <-time.After(Patience):
	}
	waits, _ := Waits(before)
	Say("%sanother Ctrl-C ends nsrun at once, and %s", waits, lost)
	for { // older ones were about the same
		select {
		case <-signals:
			continue
		default:
		}
		break
	}
	select {
	case <-done:
	case s := <-signals:
		EndBy(s.(syscall.Signal))
	}
}

// Waits reports whether this program has waited for a file since before. The text says so once, and ends in "; ".
func Waits(before stuck.Calls) (text string, still bool) {
	file, still := before.Still()
	if !still || waitsTold.Swap(true) {
		return "", still
	}
	if file == "" {
		return "waiting for a file system that does not answer; ", true
	}
	return "waiting for " + escape.Quote(file) + ", which does not answer; ", true
}

var waitsTold atomic.Bool

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
