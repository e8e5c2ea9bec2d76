//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// TestErrorsAreAboutSomething: an error of an operation names a file, or at least the session.
func TestErrorsAreAboutSomething(t *testing.T) {
	s := &Session{path: "/state/id"}
	named := &fs.PathError{Op: "copy", Path: "/p/f", Err: unix.ENOSPC}
	for _, test := range []struct {
		err  error
		want string
	}{
		{unix.EIO, "commit /state/id: input/output error"},
		{named, "copy /p/f: no space left on device"},
		{errors.Join(named, unix.EIO), "copy /p/f: no space left on device\ncommit /state/id: input/output error"},
		{&CommitError{Err: unix.EIO, undone: true}, "commit /state/id: input/output error; the commit was taken back"},
		{ErrNoChange, ErrNoChange.Error()},
	} {
		got := s.public("commit", test.err)
		if got.Error() != test.want {
			t.Errorf("%v: %v, want %s", test.err, got, test.want)
		}
		if errors.Is(test.err, unix.EIO) != errors.Is(got, unix.EIO) {
			t.Errorf("%v: the errno is lost", test.err)
		}
	}
	if err := s.public("commit", nil); err != nil {
		t.Error(err)
	}
}
