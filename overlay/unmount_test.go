//go:build linux

package overlay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// While a session's overlays are still mounted, what needs their directories waits, and everything else does not.
func TestMountedUntil(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits bool
		do    func(s *Session) error
	}{
		{"Resume", true, func(s *Session) error { return s.Resume(nil) }},
		{"Close", true, (*Session).Close},
		{"Remove", true, (*Session).Remove},
		{"ClearScratch", true, (*Session).ClearScratch},
		{"DropScratch", true, (*Session).DropScratch},
		{"Spare.Remove", true, func(s *Session) error {
			left, err := s.Retire()
			if err == nil {
				err = left.Remove()
			}
			return err
		}},
		{"Spare.Ready", true, func(s *Session) error {
			left, err := s.Retire()
			if err != nil {
				return err
			}
			left.Ready()
			return left.Remove()
		}},
		{"Changes", false, func(s *Session) error {
			for _, err := range s.Changes() {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"Collect", false, func(s *Session) error { return s.Collect(t.Context()) }},
		{"Commit", false, func(s *Session) error { return s.Commit(t.Context()) }},
		{"Discard", false, (*Session).Discard},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := create(t, project(t, `echo 1 > f`))
			synctest.Test(t, func(t *testing.T) {
				unmounted, done := make(chan struct{}), false
				s.MountedUntil(unmounted)
				go func() {
					if err := c.do(s); err != nil {
						t.Error(err)
					}
					done = true
				}()
				synctest.Wait()
				if done == c.waits {
					t.Errorf("ended before the unmount: %v", done)
				}
				close(unmounted)
				synctest.Wait()
				if !done {
					t.Error("still waits after the unmount")
				}
				s.MountedUntil(nil)
			})
		})
	}
}

// Resume waits for the unmount no longer than its context allows.
func TestResumeGivenUp(t *testing.T) {
	s := create(t, project(t, `echo 1 > f`))
	s.MountedUntil(make(chan struct{}))
	defer s.MountedUntil(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.ResumeContext(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
