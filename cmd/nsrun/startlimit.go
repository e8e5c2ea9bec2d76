//go:build linux

package main

import (
	"context"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/stuck"
)

// Until the command has started, nsrun looks at many files of the host. If one of them is on a file system that does
// not answer, the call does not return, whatever the context says. So nsrun ends as a whole: it is as if it had been
// killed, and the next nsrun removes what it has made.

// A startLimit ends nsrun when the time limit is reached before the command has started, and nsrun itself waits.
type startLimit struct {
	args []string // of nsrun run

	mu      sync.Mutex
	began   time.Time
	timeout time.Duration // zero: there is none, or it is not known yet
	timer   *time.Timer   // nil: time does not count
	before  stuck.Calls   // nil: it was not late
}

// startLimitEvery is how often a late start is looked at.
const startLimitEvery = time.Second

// newStartLimit begins at once if there is a limit among the arguments: files are looked at before flags are read.
func newStartLimit(args []string) *startLimit {
	l := &startLimit{args: args}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "timeout") }) {
		l.resume()
	}
	return l
}

// set says what the time limit is.
func (l *startLimit) set(timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	l.mu.Lock()
	begun := l.timer != nil
	l.timeout = timeout
	l.mu.Unlock()
	if !begun {
		l.resume()
	}
}

// pause stops the time.
func (l *startLimit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// resume lets the time begin again.
func (l *startLimit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.timer = time.Now(), time.AfterFunc(startLimitEvery, l.look)
}

func (l *startLimit) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		return
	}
	if l.timeout == 0 {
		var o runOptions
		fs := flag.NewFlagSet("run", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		runFlags(fs, &o)
		if usage.Flags(fs, l.args) == nil && o.timeout > 0 {
			l.timeout = o.timeout
		}
	}
	next := startLimitEvery
	switch late := time.Since(l.began) - l.timeout - console.Patience; {
	case l.timeout == 0:
	case late < 0:
		next = -late
	case l.before == nil:
		l.before = stuck.Now()
	default:
		if waits, still := console.Waits(l.before); still {
			console.Say("%stimed out after %s", waits, l.timeout)
			os.Exit(console.ExitTimeout)
		}
		l.before = stuck.Now()
	}
	l.timer.Reset(next)
}

// guardStart sees to it that signals end nsrun before the command has started: after console.Patience it calls cancel,
// and what waits nevertheless ends with nsrun. end returns the signals that came, which are for the command if it has
// started.
func (r *runner) guardStart(cancel context.CancelFunc) (end func() []os.Signal) {
	var early []os.Signal
	started, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var first, later <-chan time.Time
		var asked os.Signal // to end
		var before stuck.Calls
		stop := func() {
			if r.stopped != nil { // once more
				r.giveUp(before)
			}
			r.stopped, first, later = asked, nil, time.After(console.Patience/2)
			cancel()
		}
		for {
			select {
			case <-started:
				return
			case s := <-r.signals:
				early = append(early, s)
				switch {
				case s == unix.SIGUSR1 || s == unix.SIGUSR2:
				case asked != nil || r.copies.Load():
					asked = s
					stop()
				default:
					asked, first, before = s, time.After(console.Patience), stuck.Now()
				}
			case <-first:
				stop()
			case <-later:
				if _, still := before.Still(); still {
					r.giveUp(before)
				}
				before, later = stuck.Now(), time.After(console.Patience/2)
			}
		}
	}()
	return func() []os.Signal {
		close(started)
		<-done
		return early
	}
}

// giveUp ends nsrun by the signal that asked for it.
func (r *runner) giveUp(before stuck.Calls) {
	waits, _ := console.Waits(before)
	console.Say("%sstopped before the command began: nothing was run", waits)
	status, interrupted := r.stoppedStatus()
	if interrupted {
		console.EndBy(unix.SIGINT)
	}
	os.Exit(status)
}

// stoppedStatus is the exit status after the signal r.stopped, and whether it came from the keyboard.
func (r *runner) stoppedStatus() (status int, interrupted bool) {
	return 128 + int(r.stopped.(unix.Signal)), r.stopped == unix.SIGINT || r.stopped == unix.SIGQUIT
}
