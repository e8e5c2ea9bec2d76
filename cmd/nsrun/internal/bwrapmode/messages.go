//go:build linux

package bwrapmode

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Errors in bubblewrap's words, because programs look for them in its output.

// failed returns the exit status if COMMAND could not be started.
func (r *run) failed(err error) int {
	if !r.cfg.ExitCodes {
		return 1
	}
	e, ok := errors.AsType[*nsexec.Error](err)
	switch {
	case !ok || e.Op != nsexec.StepExec:
		return console.ExitFailed
	case errors.Is(e.Err, unix.ENOENT):
		return console.ExitNotFound
	}
	return console.ExitCannotExecute
}

// message returns bubblewrap's text for an error.
func (r *run) message(err error) string {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok {
		return err.Error()
	}
	if e.Mount > 0 && e.Mount <= len(r.ops) {
		return r.mountMessage(e, r.ops[e.Mount-1])
	}
	cause := ": " + bwrap.Strerror(e.Err)
	switch e.Op {
	case nsexec.StepExec:
		return "execvp " + e.Path + cause
	case nsexec.StepChdir:
		return "Can't chdir to " + e.Path + cause
	case nsexec.StepHostname:
		return "Can't set hostname to " + e.Path + cause
	case nsexec.StepClone:
		return cloneMessage(e.Err)
	case nsexec.StepUIDMap:
		return "setting up uid map" + cause
	case nsexec.StepGIDMap:
		return "setting up gid map" + cause
	case nsexec.StepUID, nsexec.StepGID:
		return "unable to switch to " + string(e.Op) + " " + e.Path + cause
	case nsexec.StepCapabilities:
		return "capset failed" + cause
	case nsexec.StepLoopback:
		return "loopback: Failed RTM_NEWADDR" + cause
	case nsexec.StepLockFile:
		if e.Part == nsexec.PartContent {
			return "Unable to lock file " + e.Path + cause
		}
		return "Unable to open lock file " + e.Path + cause
	case nsexec.StepNoUserNamespaces:
		return "creation of new user namespaces was not disabled as requested"
	case nsexec.StepNestedNamespace:
		if e.Path == "" {
			return "unshare user ns" + cause
		}
		return "cannot open " + e.Path + cause
	case nsexec.StepSeccomp:
		if errors.Is(e.Err, unix.EINVAL) {
			return "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. " +
				"(Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)"
		}
		return "prctl(PR_SET_SECCOMP)" + cause
	case nsexec.StepJoin:
		return joinMessage(e)
	}
	return e.Error()
}

// hint says what to do where this host refuses a call. As bwrap, it does so only where bubblewrap has no words for the
// error. Empty: the error is about the command line.
func (r *run) hint(err error) string {
	if r.own == nil {
		if e, ok := errors.AsType[*nsexec.Error](err); ok && r.message(err) != e.Error() {
			return ""
		}
	} else if text := r.own.Hint(r.words, err); text != "" {
		return text
	}
	return advice.Host(err)
}

func joinMessage(e *nsexec.Error) string {
	cause := ": " + bwrap.Strerror(e.Err)
	switch e.Path {
	case "user":
		if errors.Is(e.Err, unix.EINVAL) {
			return "Joining the specified user namespace failed, it might not be a descendant of the current user namespace."
		}
		return "Joining specified user namespace failed" + cause
	case "user, after":
		return "Setting userns2 failed" + cause
	case "pid":
		return "Setting pidns failed" + cause
	}
	return "Joining " + e.Path + " namespace failed" + cause
}

func cloneMessage(err error) string {
	switch {
	case errors.Is(err, unix.EINVAL):
		return "Creating new namespace failed, likely because the kernel does not support user namespaces."
	case errors.Is(err, unix.EPERM):
		return "No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces. " +
			"See <https://deb.li/bubblewrap> or <file:///usr/share/doc/bubblewrap/README.Debian.gz>."
	case errors.Is(err, unix.ENOSPC):
		return "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	}
	return "Creating new namespace failed: " + bwrap.Strerror(err)
}

// mountMessage returns bubblewrap's text for an error in a step of the set-up.
func (r *run) mountMessage(e *nsexec.Error, op *bwrap.SetupOp) string {
	dest, kind := op.Dest, r.cmd.Mounts[e.Mount-1].Kind
	cause := ": " + bwrap.Strerror(e.Err)
	switch e.Part {
	case nsexec.PartSource:
		return "Can't find source path " + given(op, e.Path) + cause
	case nsexec.PartChanged:
		return "Race condition binding dirfd: Invalid argument"
	case nsexec.PartParents:
		return "Can't mkdir parents for " + dest + cause
	case nsexec.PartSymlink:
		return "Can't mount on symlink destination " + dest
	case nsexec.PartNotDir:
		return "Destination is not a directory " + dest
	case nsexec.PartNotFile:
		return "Destination is not a file " + dest
	case nsexec.PartMade:
		made := "Can't make symlink at " + dest + ": "
		switch {
		case e.Text != "":
			return made + "existing destination is " + e.Text
		case errors.Is(e.Err, unix.EINVAL):
			return made + "destination exists and is not a symlink"
		}
		return made + "destination exists, and cannot read symlink target" + cause
	case nsexec.PartTarget:
		switch {
		case kind == mounts.KindSymlink:
			return "Can't make symlink at " + dest + cause
		case kind == mounts.KindChmod && errors.Is(e.Err, unix.ELOOP):
			return chmodMessage(op, unix.EOPNOTSUPP)
		case kind == mounts.KindChmod:
			return "Can't open " + dest + cause
		}
		return "Can't create file " + dest + cause
	case nsexec.PartContent:
		if kind == mounts.KindChmod {
			return chmodMessage(op, e.Err)
		}
		return "Can't write data to file " + dest + cause
	}
	if errors.Is(e.Err, unix.ENOSPC) {
		cause = ": Limit exceeded (ENOSPC). (Hint: Check that /proc/sys/fs/mount-max is sufficient, typically 100000)"
	}
	switch kind {
	case mounts.KindBind, mounts.KindData:
		if path.Clean("/"+dest) == "/" && (errors.Is(e.Err, unix.EINVAL) || errors.Is(e.Err, unix.ENOTDIR)) {
			return "Destination is not a file " + dest
		}
		return "Can't bind mount " + bindSource(op) + " on " + dest + ": Unable to mount source on destination" + cause
	case mounts.KindRemount:
		if errors.Is(e.Err, unix.EINVAL) {
			return "Can't remount readonly on " + dest + `: Unable to find "` + path.Join("/newroot", dest) + `" in mount table`
		}
		return "Can't remount readonly on " + dest + cause
	case mounts.KindOverlay:
		if errors.Is(e.Err, unix.ELOOP) {
			cause = ": Overlay directories may not overlap"
		} else if err := features.Get(features.Overlay).Err(); errors.Is(err, errors.ErrUnsupported) {
			cause = ": " + err.Error() + "; try: --bind with a copy of the directory"
		}
		return "Can't make overlay mount on " + dest + " with options " + overlayOptions(&r.cmd.Mounts[e.Mount-1]) + cause
	}
	at := dest
	if below, ok := strings.CutPrefix(e.Path, r.cmd.Mounts[e.Mount-1].Target+"/"); ok {
		at += "/" + below
	}
	return "Can't mount " + string(e.Op) + " on " + at + cause
}

func chmodMessage(op *bwrap.SetupOp, err error) string {
	mode := strconv.FormatUint(uint64(op.Perms), 8)
	if op.Perms != 0 {
		mode = "0" + mode
	}
	return "Can't chmod " + mode + " " + op.Dest + ": " + bwrap.Strerror(err)
}

// given returns a source as the command line has it.
func given(op *bwrap.SetupOp, source string) string {
	if op.Kind == bwrap.OpBindFD || op.Kind == bwrap.OpROBindFD {
		return bindSource(op)
	}
	for _, p := range append([]string{op.Source, op.WorkDir}, op.Layers...) {
		if abs, err := absolute(p); err == nil && abs == source {
			return p
		}
	}
	return source
}

func bindSource(op *bwrap.SetupOp) string {
	if op.Kind == bwrap.OpBindData || op.Kind == bwrap.OpROBindData {
		return "tmpfile"
	}
	if op.FD >= 0 {
		return "/proc/self/fd/" + strconv.Itoa(op.FD)
	}
	return op.Source
}

// overlayOptions returns the options of an overlay as mount(8) takes them.
func overlayOptions(m *mounts.Mount) string {
	upper := ""
	if m.Upper != "" {
		upper = "upperdir=" + m.Upper + ",workdir=" + m.Work + ","
	}
	return upper + "lowerdir=" + strings.Join(m.Lower, ":") + ",userxattr"
}
