//go:build linux

package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/netpolicy"
)

// failed is an error with what it means, where that is known.
func failed(op, path string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), op == "load" && errors.Is(err, unix.EINVAL): // what an old kernel does not know
		err = &hinted{err, features.Describe(features.BPF).Takes()}
	case errors.Is(err, unix.EACCES):
		err = &hinted{err, "it needs root, or a cgroup that this user may write to"}
	case errors.Is(err, unix.EROFS):
		err = &hinted{err, "the cgroup file system is mounted read-only"}
	case errors.Is(err, unix.EAGAIN):
		err = &hinted{err, "cgroup.max.descendants or cgroup.max.depth"}
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSPC):
		err = &hinted{err, "more rules or addresses than fit"}
	}
	return &netpolicy.Error{Op: op, Path: path, Err: err}
}

// A hinted is an errno with its cause in words.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() + " (" + e.hint + ")" }
func (e *hinted) Unwrap() error { return e.err }

var (
	errBusy   = errors.New("sandboxes still use the programs")
	errClosed = errors.New("the programs were closed")
)
