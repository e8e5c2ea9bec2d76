//go:build linux

package sys

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// FromBackground calls f, which may change the terminal although another process group is in the foreground: the kernel
// would stop this process with SIGTTOU otherwise, see tcsetpgrp(3). The signal is blocked for the thread alone, because
// what signal.Ignore did, signal.Reset does not undo.
func FromBackground(f func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ttou, old unix.Sigset_t
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)) }()
	return f()
}
