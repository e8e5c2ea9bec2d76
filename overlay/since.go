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

// beginning is when a session begins whose lock was just made: the time of that file, or if that is in whole seconds, a
// later one of the same clock. (The file may be on another machine, which has a clock of its own.)
func beginning(lock tree.Stat) (time.Time, error) {
	made := time.Unix(0, lock.Ctime).UTC()
	if !wholeSeconds(lock) {
		return made, nil
	}
	now, err := fileClock()
	if d := now.Sub(made); d > 0 && d < tree.ClockStep {
		return now, err
	}
	return made, err
}

// noteSince notes the time where the file system of a root counts in whole seconds. Objects that were changed in the
// same step, before the session began, count as changed since: awaitSince and awaitChanged see to it that there are
// none.
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

// awaitChanged waits for the next step if something in the project was changed in this one: it would count as changed
// since. The next step can begin while it looks.
func (s *Session) awaitChanged(ctx context.Context) error {
	for i := range s.lower {
		root, err := s.projectRoot(i)
		if err != nil {
			return err
		}
		if !wholeSeconds(root) || !s.changedSince(ctx, i) {
			continue
		}
		if now, err := fileClock(); err != nil {
			return err
		} else if now.Truncate(tree.ClockStep).UnixNano()-1 == s.meta.Since {
			if err := nextStep(ctx); err != nil {
				return err
			}
		}
		return s.noteSince(root)
	}
	return ctx.Err()
}

// changedSince reports whether something in root i was changed since the session's beginning, or the step has ended.
func (s *Session) changedSince(ctx context.Context, i int) (changed bool) {
	h, err := s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer h.Close()
	// What cannot be listed is compared later, with an error that says so.
	_, _ = tree.WalkBelow(&tree.Real{H: h}, ".", func(f tree.Found) bool {
		now, err := fileClock()
		changed = f.Stat.Ctime > s.meta.Since || err != nil || now.Truncate(tree.ClockStep).UnixNano()-1 != s.meta.Since
		return !changed && ctx.Err() == nil
	})
	return changed
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

// nextStep waits for a new step of the clock. If somebody sets the clock, it does not wait for long. It is a variable
// for tests.
var nextStep = func(ctx context.Context) error {
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
