//go:build linux

package sandbox

import (
	"os"
	"time"
)

// Options of an nsexec.Cmd. The zero Options change nothing.
type Options struct {
	// Deadline is when the command is asked to end (SIGTERM); Cmd.WaitDelay later everything in the sandbox is killed.
	// PID 1 does that, so it holds where this program is stopped, and for processes in other process groups; where the
	// PID namespace is shared, see Reaper, it is the command alone. Not with AsPID1, and not where a filter keeps PID 1
	// from waiting. Zero: none. The deadline of a context is kept by PID 1 as well, as far as it kills: at once with the
	// default Cancel, else after WaitDelay.
	Deadline time.Time
	// TimedOut reports, after Wait, that PID 1 has found that the command timed out.
	TimedOut bool
	// Join are namespaces to enter instead of those that would be shared or made.
	Join Join
	// Supervisor has some system calls decided outside of the sandbox. Nil: none.
	Supervisor *Supervisor
	// Observer is told of system calls that a Supervisor which comes later does not decide. Nil: nobody is.
	Observer *Observer
	// Gate is called by Start, in a goroutine of its own, while the sandbox is set up. The command is executed when it has
	// returned nil; Start, which waits for it as long as the context lasts, fails with the error that it returned. Not with
	// Inherit or Bubblewrap. Nil: nothing has to be waited for.
	Gate func() error
	// Place is called by Start with the process id of PID 1, when that executes nothing of the command's yet, and has made
	// its namespaces at most. An error is that of Start. Not with Inherit. Nil: nobody has to do anything.
	Place func(pid int) error
	// CountUnsent has Unsent tell what the kernel did not send for the command, in a network namespace of its own. False:
	// nobody looks.
	CountUnsent bool
	// MaskedProc shows the host's /proc, read-only and with all that is mounted over it, where the kernel refuses a new
	// one because of what is mounted there, as containers have it: other processes can be seen there, and not looked
	// into. Only with a new user namespace. False: that is an error.
	MaskedProc bool
	// HostProc reports, after Start, that MaskedProc had to.
	HostProc bool
	// Confinement is in place of namespaces and mounts. Nil: there are some.
	Confinement *Confinement
	// Counters are what Unsent reads. Set by Start.
	Counters *Counters

	// AsPID1 executes the command itself as PID 1. False: a small PID 1 reaps what is orphaned and passes signals on.
	AsPID1 bool
	// Reaper puts a small process above the command even where the PID namespace is shared, and where Hold and LockFiles
	// need one. False: only as PID 1.
	Reaper bool
	// HoldSignals keeps PID 1 from passing on the signals that somebody outside sends to it. False: the command gets them.
	HoldSignals bool
	// OwnRoot has all that is done in the sandbox after its layers (nsexec.Cmd.Layers) were attached be done as its user and group 0:
	// Cmd.UIDMap and GIDMap have these, and not the caller's ids. False: it is done as the caller.
	OwnRoot bool
	// Masks is a mount that is attached nowhere, with a directory d and a file f that nobody in the sandbox can open: they cover what
	// is blocked (mounts.KindBlock), also for a command that may open everything of the sandbox's. Nil: they are the sandbox's.
	Masks *os.File
	// SameSession keeps the command in the caller's session and process group even where it has no terminal. Then it can
	// send signals to that group (kill(2) with process id 0), which no PID namespace prevents. False: see Cmd.NewSession.
	SameSession bool
	// NoHostname gives the host the empty name, in a new UTS namespace. False: Cmd.Hostname.
	NoHostname bool
	// NoUserNamespaces lets nothing inside make user namespaces. It costs another one, in which the command runs, and
	// needs a new one (Cmd.Share without User). False: whoever has no filter against it can make them.
	NoUserNamespaces bool
	// AssertNoUserNamespaces makes Start fail if the command could make user namespaces.
	AssertNoUserNamespaces bool
	// LoopbackOptional goes on where the loopback device of a new network namespace cannot be brought up. False: that is an
	// error.
	LoopbackOptional bool
	// KeepCapabilities leaves the capability sets what they are in the sandbox's user namespace. False: Cmd.Capabilities.
	KeepCapabilities bool
	// ClassicMounts sets mounts up with mount(2) even where the kernel has the newer calls. Kernels before 5.12 need it,
	// and then it is chosen without being asked.
	ClassicMounts bool

	// Inherit leaves the caller's descriptors above those of ExtraFiles open in the command, where they are not
	// close-on-exec, except for those in Close. It is for small programs that are their own launcher, and then the standard
	// descriptors must be the caller's own, and ExtraFiles empty. False: all are closed.
	Inherit bool
	// Close are the numbers of descriptors that Inherit does not leave open.
	Close []int
	// Hold are descriptors that PID 1 keeps open, and the command does not have (where it is PID 1 itself, it has them).
	// Only with Inherit. Nil: none.
	Hold []*os.File
	// LockFiles are files of the sandbox on which PID 1 holds a read lock, see F_SETLK in fcntl(2). Nil: none.
	LockFiles []string
	// Block is read before the command is executed, when everything else is done: until there is a byte, the end, or an
	// error. Only with Inherit. Nil: nothing is waited for.
	Block *os.File
	// Ignore are signals that the command ignores, bit n-1 for signal n, besides those that this program ignores. Zero:
	// none.
	Ignore uint64
	// Forget is memory of this program, in place and not moved, that PID 1 must not have where it can be looked into
	// (Bubblewrap). Nil: none.
	Forget []byte
	// Created is called when the namespaces exist and before anything is set up in them, with the process id that PID 1, or
	// the command without one, will have. An error ends the sandbox, and is what Start returns. Nil: nothing is called.
	Created func(pid int) error
	// MapLater leaves it to Created to have the id maps of the new user namespace written. False: Cmd.UIDMap and GIDMap.
	MapLater bool
	// Bubblewrap makes details as bubblewrap 0.12 has them, for programs that rely on them: those of package mountprog
	// (Options.Bubblewrap); the caller's session key ring is shared; root's bounding set stays as it is; without Dir the
	// command starts where the caller is, else in $HOME, else in "/", and in any case PWD says so; without PATH it is looked
	// for in /bin and /usr/bin; what has no known format is given to /bin/sh, as execvp(3) does.
	Bubblewrap bool

	// WorkingDir is the caller's working directory, if it is known. Empty: it is asked for.
	WorkingDir string
}

// Join names namespaces by descriptors of /proc/pid/ns/… files, see setns(2). The zero Join enters none.
type Join struct {
	// User is entered first, and is where the others and all mounts belong to.
	User *os.File
	// Net is the network namespace.
	Net *os.File
	// PID is the PID namespace; a new one is made below it unless Share has PID.
	PID *os.File
	// UserAfter is entered when everything is set up. Only with Inherit.
	UserAfter *os.File
	// UID and GID are what the process becomes in User, where SetUID and SetGID say so. They are ignored without User.
	UID, GID       uint32
	SetUID, SetGID bool
}

// Clone is a sandbox that was begun before this program's main.
type Clone struct {
	Pid, Sock, Status int     // the process, our end of its socket, its status pipe
	UID, GID          int     // whose it is, and the only ids that it has; of root it has none yet
	Flags             uintptr // its namespaces, as flags of clone(2), but for the mount namespace, which is new
	ChildStatus       int     // the number that the status pipe has in it
	Inherit           bool    // it has all descriptors of the caller, and its session key ring
}

// Begun returns a Clone, once, which is the caller's then; ok is false if there is none. Nil: this program has no package
// prerun, which sets it.
var Begun func() (c Clone, ok bool)
