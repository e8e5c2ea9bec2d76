//go:build linux

package advice

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// What is wrong with the place that nsrun runs in: a sandbox, a container, a host without a home
// directory.

// Surroundings is what to do about an error of which that is the cause, or empty.
func Surroundings(err error) string {
	if errors.Is(err, unix.ENOSYS) && inSandbox() { // openat2(2)
		return insideHint
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && errors.Is(e.Err, unix.EPERM) {
		switch {
		case e.Op == nsexec.StepClone && inSandbox():
			return insideHint
		case e.Op == nsexec.StepProc:
			if at := overProc(); at != "" {
				return "the kernel refuses a new /proc while something is mounted over " + escape.Quote(at) +
					", as containers have it; try: " + features.Describe(features.OwnProc).Remedy
			}
		}
	}
	if text := refusedCall(err); text != "" {
		return text
	}
	e, ok := errors.AsType[*overlay.Error](err)
	if !ok || !errors.Is(e, overlay.ErrStateDir) {
		return ""
	}
	switch {
	case inSandbox():
		return insideHint
	case os.Getenv("XDG_STATE_HOME") != "":
		return ""
	}
	for _, why := range [...]error{fs.ErrPermission, fs.ErrNotExist, unix.EROFS, unix.ENOTDIR} {
		if e.Path == "" || errors.Is(err, why) {
			return "sessions are kept below $HOME; try: export XDG_STATE_HOME=DIR, with a directory that can be written to"
		}
	}
	return ""
}

// refusedCall names the call that nothing works without, where an error may be that it is not there, or that a filter
// refuses it: the errors themselves are about a path. Empty: none is missing.
func refusedCall(err error) string {
	if !errors.Is(err, unix.ENOSYS) {
		return ""
	}
	for _, name := range [...]features.Name{
		features.Openat2, features.CloseRange, features.Statx, features.SeccompFilters, features.Renameat2,
	} {
		if f := features.Get(name); f.Status == features.No {
			return f.Err().Error()
		}
	}
	return ""
}

const insideHint = "this is a sandbox already, and nsrun makes none in one: run the command as it is"

// inSandbox reports whether we run in a sandbox of nsrun run: its first process is nsrun, and
// nobody in it gets new privileges.
func inSandbox() bool {
	comm, err := os.ReadFile("/proc/1/comm")
	if err != nil || !strings.HasPrefix(string(comm), "nsrun") {
		return false
	}
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && set == 1
}

// overProc is a place below /proc that something is mounted over, or empty.
func overProc() string {
	table, err := mounts.ReadMountinfo()
	if err != nil {
		return ""
	}
	for _, m := range table {
		if m.MasksProc() {
			return m.Target
		}
	}
	return ""
}
