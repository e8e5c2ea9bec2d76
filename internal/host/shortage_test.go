//go:build linux

package host

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestSocketShortage: where this process can open no more files, the search for sockets fails: it does not say that
// there are none. Nor does one that was stopped.
func TestSocketShortage(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	short := func(do func()) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
		}()
		do()
	}
	var stopped atomic.Bool
	find := func() func() ([]string, error) {
		_, more, err := FindSockets(true, &stopped)
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	if _, err := find()(); err != nil {
		t.Errorf("control: %v", err)
	}
	more := find()
	short(func() {
		if _, _, err := FindSockets(true, &stopped); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("near: %v", err)
		}
		if list, err := more(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("more: %q, %v", list, err)
		}
	})
	more = find()
	stopped.Store(true)
	if list, err := more(); err != errStopped {
		t.Errorf("stopped: %q, %v", list, err)
	}
}
