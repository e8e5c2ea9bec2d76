//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// Approve asks on the terminal. Ctrl-C is an answer, too: signals go to the command only after it has started.
func (r *runner) Approve(ctx context.Context, q nsrunlib.Question) (nsrunlib.Answer, error) {
	<-r.notified
	signal.Stop(r.signals)
	defer r.notify()
	r.limit.pause() // the time in which the user has to think is not the command's
	defer func() { r.limit.set(r.o.timeout) }()
	return nsrunlib.Terminal{Prefix: "nsrun: "}.Approve(ctx, q)
}

// beginNotify calls notify in the background, because the Go runtime waits for a thread for each signal. Until then a
// signal ends nsrun and the command.
func (r *runner) beginNotify() {
	r.signals, r.notified = make(chan os.Signal, 16), make(chan struct{})
	go func() {
		r.notify()
		close(r.notified)
	}()
}

func (r *runner) notify() {
	for _, s := range console.Forwarded {
		// The command ignores what our caller ignores (nohup). With a handler here, the command would have the
		// default action instead.
		if !signal.Ignored(s) {
			signal.Notify(r.signals, s)
		}
	}
}

// notStarted says why a command was not started, and returns the exit status.
func (r *runner) notStarted(x *nsrunlib.Execution, err error) int {
	if errors.Is(err, context.DeadlineExceeded) {
		if res, _ := x.Wait(); res.Session != "" {
			console.Say("it had just begun, and what it wrote is kept in session %s", res.Session)
		}
		return r.timeOut("")
	}
	if _, ok := errors.AsType[*nsrunlib.DirError](err); ok && r.o.dir == playground {
		for _, notice := range x.Notices() { // why it does not exist
			console.Say("%s", notice)
		}
	}
	r.told = err
	if r.stopped != nil && errors.Is(err, context.Canceled) {
		return r.wasStopped("stopped before the command began: nothing was run")
	}
	status := console.Fail(r.typed(err))
	res, _ := x.Wait()
	r.o.withoutLocked(res.Refusals)
	r.refusals = res.Refusals
	for _, d := range res.FileRefusals() {
		console.Say("denied: %s", d)
	}
	return status
}

// tellNotices prints the library's notices before the command's own output. -q does not suppress notices that the
// sandbox is less than the user asked for: that there is none, or that it has no namespaces although nobody chose that.
func (r *runner) tellNotices(list []nsrunlib.Notice) {
	for _, notice := range list {
		less := notice.Kind == nsrunlib.NoticeUnsandboxed || notice.Kind == nsrunlib.NoticeBackend && notice.Path == "" && r.o.backend == nsrunlib.AutoBackend
		if r.o.quiet && notice.Kind != nsrunlib.NoticeLimit && !less {
			continue
		}
		text := notice.Text
		switch notice.Kind {
		case nsrunlib.NoticeGit:
			text += " (try: nsrun run --project . --project DIR)"
		case nsrunlib.NoticeOwner:
			text += " (try: --own-ids, or run nsrun as that user, with sudo -u or su)"
		case nsrunlib.NoticeGroup:
			text += " (try: nsrun run --engine copy)"
		}
		console.Say("%s", text)
	}
}

// endNotify undoes notify in the background, for the same reason.
func (r *runner) endNotify() {
	go func() {
		<-r.notified
		signal.Stop(r.signals)
	}()
}

// run runs the command, after beginNotify, and returns its exit status. From the command's end until endNotify, signals
// do nothing, because its changes may still be in memory.
func (r *runner) run(ctx context.Context, runner *nsrunlib.Runner, c nsrunlib.Config, q nsrunlib.Request) int {
	shared := console.SaveShared()
	progress, copied := r.copying()
	x, err := runner.Start(overlay.WithProgress(ctx, progress), q)
	copied()
	<-r.notified
	early := r.early()
	r.limit.pause()
	if s := x.Session(); s != nil {
		r.engine = s.Info().Engine.String()
	}
	if err != nil {
		return r.notStarted(x, err)
	}
	r.execution, r.session = x, x.Session()
	r.lastRun = r.ready(c)
	r.tellNotices(x.Notices())
	if r.o.watch {
		r.watched = make(chan struct{})
		go r.watch(x.Events())
	}
	done := make(chan struct{})
	go r.forward(x, early, done)
	stopLooking := r.lookForRefusals(x)
	res, err := x.Wait()
	stopLooking()
	close(done)
	shared.Restore()
	r.before.Restore()
	console.CommandEnded()
	r.o.withoutLocked(res.Refusals)
	r.refusals = res.Refusals
	if r.session == nil { // else Collect records
		r.tell(res)
	}
	r.backend, r.unsandboxed = res.Backend, res.Unsandboxed
	r.signal, r.network, r.took = res.SignalName(), res.Network, res.Duration
	r.missing, r.limits, r.services = res.Missing, res.Limits, res.Services
	r.tellNetwork(res)
	r.tellServices()
	r.tellDenied(res)
	switch {
	case res.TimedOut:
		return r.timeOut(limitFlag(res.Refusals, "time limit "+r.o.timeout.String()+" reached"))
	case err != nil:
		r.told = err
		if r.stopped != nil && errors.Is(err, context.Canceled) {
			return r.wasStopped("stopped as the command began")
		}
		return console.Fail(err)
	}
	return res.ExitCode
}

// forward forwards signals to the command, first those that came before it began. What ends programs and comes after
// the command has ended is for nsrun.
func (r *runner) forward(x *nsrunlib.Execution, early []os.Signal, done <-chan struct{}) {
	for _, s := range early {
		_ = x.Signal(s)
	}
	for {
		select {
		case s := <-r.signals:
			if x.Signal(s) != nil && s != unix.SIGUSR1 && s != unix.SIGUSR2 {
				console.EndBySecond(r.signals, done, r.lost())
				return
			}
		case <-done:
			return
		}
	}
}

// wasStopped says why the start was stopped by a signal, and returns the exit status.
func (r *runner) wasStopped(why string) (status int) {
	console.Say("%s", why)
	status, r.interrupted = r.stoppedStatus()
	return status
}

// tell says what could not be recorded.
func (r *runner) tell(res nsrunlib.Result) {
	for _, notice := range res.Notices[len(r.execution.Notices()):] {
		if !r.o.quiet || notice.Kind == nsrunlib.NoticeLimit || notice.Kind == nsrunlib.NoticeRegistry {
			console.Say("%s%s", strings.ReplaceAll(notice.Text, "\n", "; "), limitFlag(r.refusals, notice.Text))
		}
	}
	for _, b := range res.Backups {
		r.backups = append(r.backups, backupReport{b.Path, b.Copy})
	}
}

// limitFlag says with which flag the limit would be higher that a text says was reached.
func limitFlag(list []nsrunlib.Refusal, text string) string {
	for _, d := range list {
		if d.Rule == "limit" && strings.HasSuffix(text, d.Why) {
			return tryFlag(d.Flag)
		}
	}
	return ""
}

// timeOut says that the time was up, and which flag allows more.
func (r *runner) timeOut(flag string) int {
	r.timedOut = true
	console.Say("timed out after %s%s", r.o.timeout, flag)
	return console.ExitTimeout
}
