package nsexec

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/prog"
)

// Error says that a sandbox could not be set up, and the command was not executed.
type Error struct {
	Op   Step
	Path string // what it was about: a path, or the name of something else
	Err  error  // the cause, usually a syscall.Errno

	// Program says how far the set-up came, for debugging: the number of the operation in the Program that failed.
	// Zero: no Program ran.
	Program int

	// Mount is 1 + the index in Cmd.Mounts of the mount that failed. Zero: none of them.
	Mount int
	// Part says which part of the mount failed. Zero: the mount as a whole.
	Part Part
	// Text is the text of the existing symbolic link, for PartMade. Empty: there is none.
	Text string

	attach bool // a mount could not be attached
}

// A Step is a step of setting up a sandbox, in a word or two. Steps that programs need to tell apart have constants; an
// Error can have others.
type Step string

// The steps that have constants.
const (
	StepLauncher Step = "launcher" // the launcher did not start
	StepClone    Step = "clone"    // the first process and its namespaces could not be made
	StepUIDMap   Step = "uid map"
	StepGIDMap   Step = "gid map"
	StepJoin     Step = "join" // Path says which namespace

	StepBind    Step = "bind"
	StepRemount Step = "remount"
	StepTmpfs   Step = "tmpfs"
	StepOverlay Step = "overlay"
	StepLayer   Step = "layer" // of an overlay
	StepProc    Step = "proc"

	StepHostname         Step = "hostname"
	StepLoopback         Step = "loopback"
	StepLockFile         Step = "lock file"
	StepNestedNamespace  Step = "nested user namespace"
	StepNoUserNamespaces Step = "no user namespaces"
	StepUID              Step = "uid"
	StepGID              Step = "gid"
	StepCapabilities     Step = "capabilities"
	StepLandlock         Step = "landlock"
	StepSeccomp          Step = "seccomp"
	StepChdir            Step = "chdir"
	StepExec             Step = "exec" // the program was not executed
)

// AbstractSockets is the Path of an Error with Op StepLandlock that is about Cmd.HideAbstract.
const AbstractSockets = "abstract sockets"

// Part is a part of a step of the set-up.
type Part uint8

// The parts. The zero value is the step as a whole.
const (
	PartSource  = Part(prog.PartSource)  // the source was not found
	PartParents = Part(prog.PartParents) // the directories above the target could not be made
	PartTarget  = Part(prog.PartTarget)  // the target could not be made or opened
	PartSymlink = Part(prog.PartSymlink) // the target is a symbolic link
	PartNotDir  = Part(prog.PartNotDir)  // the target is not a directory, and had to be one
	PartNotFile = Part(prog.PartNotFile) // the target is a directory, and must not be one
	PartContent = Part(prog.PartContent) // the content could not be written
	PartChanged = Part(prog.PartChanged) // the source is not the expected file
	PartMade    = Part(prog.PartMade)    // the target exists and is something else
)

var errGone = errors.New("the sandbox ended before the command was executed")

// KilledError is the cause if a signal ended PID 1, or the process in its place, before it reported that the command
// was executed. The command may have been executed just before.
type KilledError struct{ Signal syscall.Signal }

func (e *KilledError) Error() string { return errGone.Error() + " (signal: " + e.Signal.String() + ")" }

func (e *KilledError) Unwrap() error { return errGone }

func (e *Error) Error() string { return escape.Failure(string(e.Op), e.Path, explain(e)) }

func (e *Error) Unwrap() error { return e.Err }

// notFound reports whether the program was looked for along PATH and is in none of the directories.
func (e *Error) notFound() bool {
	return e.Op == StepExec && e.Path != "" && !strings.Contains(e.Path, "/") &&
		(errors.Is(e.Err, syscall.ENOENT) || errors.Is(e.Err, syscall.ENOTDIR))
}

// Is makes errors.Is(err, exec.ErrNotFound) true if the program is not in PATH.
func (e *Error) Is(target error) bool { return target == exec.ErrNotFound && e.notFound() }

// As lets errors.As find the *exec.Error that os/exec would return if the program is not in PATH.
func (e *Error) As(target any) bool {
	to, ok := target.(**exec.Error)
	if !ok || !e.notFound() {
		return false
	}
	*to = &exec.Error{Name: e.Path, Err: exec.ErrNotFound}
	return true
}

// mountsUsedUp reports whether there are too many mounts.
func (e *Error) mountsUsedUp() bool {
	switch e.Op {
	case "prepare", "pivot", "dev", "block", StepBind, StepTmpfs, StepRemount, StepProc:
		return (e.Part == 0 || e.Part == PartSource) && errors.Is(e.Err, syscall.ENOSPC)
	}
	return false
}

// explain puts a cause that is known into words.
func explain(e *Error) string {
	text := e.Err.Error()
	errno, ok := errors.AsType[syscall.Errno](e.Err)
	if !ok {
		return text
	}
	why := ""
	switch {
	case e.Op == StepClone && (errno == syscall.EPERM || errno == syscall.EACCES):
		why = "the kernel or its configuration does not let this user make namespaces"
	case (e.Op == StepClone || e.Op == "fork") && errno == syscall.EAGAIN:
		why = "the limit on processes is reached; try: ulimit -u, or pids.max of the cgroup"
	case e.Op == StepClone && (errno == syscall.ENOSPC || errno == syscall.EUSERS):
		why = namespacesUsedUp()
	case e.Op == StepLandlock && e.Path == AbstractSockets:
		why = features.Describe(features.LandlockScopes).Takes()
	case e.Op == StepLandlock && e.Path == "":
		why = features.Describe(features.LandlockTCP).Takes()
	case e.Op == StepLandlock && errno == syscall.EXDEV:
		why = "the root directory lies in itself; try: run nsrun outside of the chroot"
	case e.Op == "supervise" && errno == syscall.EBUSY:
		why = "the kernel allows one listener of seccomp_unotify(2) for a process, and a sandbox or container around this one has it; try: run nsrun outside of it"
	case e.Op == "prepare" && errno == syscall.EINVAL && e.Path == "/..":
		why = "too many directories are above the root directory; try: run nsrun outside of the chroot"
	case e.Op == "prepare" && errno == syscall.EINVAL:
		why = "the root file system is an initramfs, which the sandbox's root can only cover, and a command with CAP_SYS_ADMIN could unmount that; try: --cap-drop CAP_SYS_ADMIN"
	case e.Op == StepOverlay && errno == syscall.EINVAL:
		why = "a lower directory has another mount inside, which a user namespace may not uncover; or the file system of the upper directory cannot hold an overlay's changes"
	case e.Op == StepOverlay && errno == syscall.EROFS:
		why = "the kernel could not make the overlay's work directory: the disk that holds the changes may be full, or a quota may be used up"
	case e.Op == StepOverlay && errno == syscall.ELOOP:
		why = "layers may not overlap"
	case e.Part == PartNotDir:
		why = "something that is not a directory is there"
	case e.Part == PartNotFile:
		why = "a directory is there"
	case e.Part == PartChanged:
		why = "another file is there now"
	case e.Part == PartMade && e.Text != "":
		why = "a link to something else is there"
	case errno == syscall.ELOOP:
		why = "a symbolic link is there"
	case e.Op == StepRemount && errno == syscall.EINVAL:
		why = "not a mount point"
	case e.Op == StepUIDMap || e.Op == StepGIDMap:
		self, _ := os.Readlink("/proc/self")
		switch {
		case self != strconv.Itoa(os.Getpid()):
			why = "/proc is not mounted, or is that of another PID namespace: mount -t proc proc /proc"
		case errno == syscall.EPERM && os.Geteuid() == 0:
			why = "root without CAP_SETUID, CAP_SETGID and CAP_SETFCAP cannot map ids: keep these capabilities, or run it as an ordinary user"
		case errno == syscall.EPERM || errno == syscall.EINVAL:
			why = "this mapping of ids is not allowed"
		}
	case e.mountsUsedUp():
		why = mountsUsedUp()
	case (errno == syscall.ENOENT || errno == syscall.ENODEV) && e.Op == "dev":
		why = "the host's /dev lacks it, or has something else there"
		if remedy := features.Get(features.Devices).Remedy; remedy != "" {
			why += "; try: " + remedy
		}
	case e.Op == "fork" && errno == syscall.EPERM:
		why = "a filter refuses to make processes, or to send signals, without which nothing could end the command; try: --security-opt seccomp=unconfined of docker and podman"
	}
	if why == "" {
		return text
	}
	return text + " (" + why + ")"
}
