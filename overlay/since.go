//go:build linux

package overlay

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// What is changed in the project after a session began has a later ctime. But some file systems count in whole seconds,
// FAT in steps of two: there a change seems to be up to two seconds older than it is. So a session notes another time
// of its beginning (store.Meta.Since), before such a step.

// wholeSeconds reports whether the file system of a project's root counts so, from the root's ctime. It is a variable
// for tests.
var wholeSeconds = func(root tree.Stat) bool { return root.Ctime%int64(time.Second) == 0 }

// noteSince notes the time where the file system of a root counts in whole seconds. Objects that were changed in the
// same step, before the session began, count as changed since.
func (s *Session) noteSince(root tree.Stat) error {
	if !wholeSeconds(root) {
		return nil
	}
	now, err := fileClock()
	if err == nil {
		s.meta.Since = now.Truncate(tree.ClockStep).UnixNano() - 1
	}
	return err
}

// awaitSince waits for the next step before the project is copied, so that no object counts as changed that was not.
func (s *Session) awaitSince(ctx context.Context) error {
	for i := range s.lower {
		st, err := s.projectRoot(i)
		if err != nil {
			return err
		}
		if wholeSeconds(st) {
			if err := nextStep(ctx); err != nil {
				return err
			}
			return s.noteSince(st)
		}
	}
	return nil
}

// projectRoot returns what the project's root is, even if the command sees a session below.
func (s *Session) projectRoot(i int) (tree.Stat, error) {
	h, err := s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return tree.Stat{}, err
	}
	defer h.Close()
	return h.Stat()
}

// nextStep waits for a new step of the clock. If somebody sets the clock, it does not wait for long.
func nextStep(ctx context.Context) error {
	first, err := fileClock()
	for tries := 0; err == nil && tries < 300; tries++ {
		var now time.Time
		if now, err = fileClock(); err != nil || !now.Truncate(tree.ClockStep).Equal(first.Truncate(tree.ClockStep)) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return err
}

// fileClock is the kernel's clock for files, which is behind the one that time.Now reads.
func fileClock() (time.Time, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts)
	return time.Unix(ts.Unix()).UTC(), err
}
