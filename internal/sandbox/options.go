//go:build linux

package sandbox

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Options of an nsexec.Cmd. The zero Options change nothing.
type Options struct {
	// Deadline is when the command is asked to end (SIGTERM). Cmd.WaitDelay later everything in the sandbox is
	// killed. PID 1 does that, even if this program is stopped, and for processes in other process groups, too. If
	// the PID namespace is shared (see Reaper), only the command is ended. It does not work with AsPID1, or if a
	// filter keeps PID 1 from waiting. PID 1 also kills at the deadline of a context: at once with the default
	// Cancel, otherwise after WaitDelay. Zero: there is none.
	Deadline time.Time
	// TimedOut says, after Wait, that PID 1 ended the command because of the Deadline.
	TimedOut bool
	// Join are namespaces to enter, instead of sharing them or making new ones.
	Join Join
	// Supervisor decides about some system calls outside the sandbox. Nil: there is none.
	Supervisor *Supervisor
	// Observer receives system calls about which a Supervisor that comes later does not decide. Nil: there is none.
	Observer *Observer
	// Gate is called by Start, in a goroutine of its own, while the sandbox is set up. The command is executed only
	// after Gate has returned nil; its error is that of Start. Start waits for it until the context ends. Not with
	// Inherit or Bubblewrap. Nil: Start waits for nothing.
	Gate func() error
	// Place is called by Start with the process id of PID 1, before PID 1 has done more than make its namespaces.
	// Its error is that of Start. Not with Inherit. Nil: there is no call.
	Place func(pid int) error
	// CountUnsent makes Unsent return what the kernel did not send for the command, in a network namespace of its
	// own. False: nothing is counted.
	CountUnsent bool
	// LeaveMounts lets Wait return before the sandbox's mounts are unmounted. The kernel does that when the last
	// process of the sandbox has ended, and with an overlay it may have to write a whole file system to disk first.
	// Not with Inherit or Bubblewrap. False: Wait waits for it.
	LeaveMounts bool
	// Unmounted is closed when the mounts that LeaveMounts has left are unmounted, or those of a sandbox whose
	// set-up did not end in time after it was killed. Set by Wait, and by a Start that fails. Nil: they are already.
	Unmounted <-chan struct{}
	// MaskedProc shows the host's /proc, read-only and with everything that is mounted over it, if the kernel
	// refuses a new one because of these mounts, as in containers. The command then sees that other processes
	// exist, but cannot look into them. Only with a new user namespace. False: it is an error if the kernel refuses
	// a new one.
	MaskedProc bool
	// HostProc says, after Start, that MaskedProc showed the host's /proc.
	HostProc bool
	// Confinement replaces namespaces and mounts. Nil: the command has these.
	Confinement *Confinement
	// Counters are what Unsent reads. Set by Start.
	Counters *Counters

	// AsPID1 executes the command itself as PID 1. False: a small PID 1 reaps orphans and forwards signals.
	AsPID1 bool
	// Reaper makes a small process the command's parent even if the PID namespace is shared, for example for Hold
	// and LockFiles. False: there is one only as PID 1.
	Reaper bool
	// HoldSignals keeps PID 1 from passing on the signals that somebody outside sends to it. False: the command
	// gets them.
	HoldSignals bool
	// OwnRoot does everything after the layers (nsexec.Cmd.Layers) were attached as user and group 0 of the
	// sandbox. Cmd.UIDMap and GIDMap must have these ids, and not the caller's. False: it is done as the caller.
	OwnRoot bool
	// Masks is a mount that is attached nowhere, with a directory d and a file f that nobody in the sandbox can
	// open. They cover what is blocked (mounts.KindBlock), even for a command that may open everything that belongs
	// to the sandbox. Nil: the sandbox makes its own.
	Masks *os.File
	// SameSession keeps the command in the caller's session and process group even if it has no terminal. The
	// command can then send signals to that group (kill(2) with process id 0), which no PID namespace prevents.
	// False: see Cmd.NewSession.
	SameSession bool
	// NoHostname sets the empty host name, in a new UTS namespace. False: Cmd.Hostname.
	NoHostname bool
	// NoUserNamespaces prevents that anything inside makes user namespaces. For that the command runs in one more
	// user namespace, and there must be a new one (Cmd.Share without User). False: only filters prevent it.
	NoUserNamespaces bool
	// AssertNoUserNamespaces makes Start fail if the command could make user namespaces.
	AssertNoUserNamespaces bool
	// Scripts runs a script that does not begin with "#!" by /bin/sh, as shells do. False: it cannot be executed, as
	// in os/exec. See also Bubblewrap.
	Scripts bool
	// LoopbackOptional goes on if the loopback device of a new network namespace cannot be brought up. False: that
	// is an error.
	LoopbackOptional bool
	// KeepCapabilities does not change the capability sets in the sandbox's user namespace. False:
	// Cmd.Capabilities.
	KeepCapabilities bool
	// ClassicMounts uses mount(2) even if the kernel has the newer calls. Kernels before 5.12 need it, and then it
	// is chosen automatically.
	ClassicMounts bool

	// Inherit leaves the caller's descriptors open in the command, if they are not close-on-exec and not in Close.
	// It is for small programs that are their own launcher; the standard descriptors must be the caller's own, and
	// ExtraFiles empty. False: all others are closed.
	Inherit bool
	// Close are the numbers of descriptors that Inherit does not leave open.
	Close []int
	// Hold are descriptors that PID 1 keeps open and the command does not have. A command that is PID 1 itself has
	// them. Only with Inherit. Nil: none.
	Hold []*os.File
	// LockFiles are files of the sandbox on which PID 1 holds a read lock, see F_SETLK in fcntl(2). Nil: none.
	LockFiles []string
	// Block is read before the command is executed, when everything else is done. The command waits for a byte, the
	// end of file, or an error. Only with Inherit. Nil: it waits for nothing.
	Block *os.File
	// Ignore are signals that the command ignores besides those that this program ignores, bit n-1 for signal n.
	// Zero: none.
	Ignore uint64
	// Forget is memory of this program that PID 1 erases, if other processes can look into PID 1 (Bubblewrap). It
	// must not move. Nil: none.
	Forget []byte
	// Created is called when the namespaces exist, before anything is set up in them, with the process id of PID 1,
	// or of the command if there is no PID 1. Its error ends the sandbox, and is that of Start. Nil: there is no
	// call.
	Created func(pid int) error
	// MapLater leaves writing the id maps of the new user namespace to Created. False: Cmd.UIDMap and GIDMap.
	MapLater bool
	// Bubblewrap does details as bubblewrap 0.12 does them, for programs that rely on that: those of package
	// mountprog (Options.Bubblewrap); the caller's session keyring is shared; root's bounding set is not changed;
	// without Dir the command starts in the caller's directory, else in $HOME, else in "/", and PWD is set to it;
	// without PATH the command is looked for in /bin and /usr/bin; a file of unknown format is run by /bin/sh, as
	// execvp(3) does.
	Bubblewrap bool

	// Begun is Known.Begun, with PageSize. Zero: there is no such page.
	Begun, PageSize uintptr

	// WorkingDir is the caller's working directory, if it is known. Empty: the system is asked.
	WorkingDir string
}

// Join names namespaces by descriptors of /proc/pid/ns/… files, see setns(2). The zero Join enters none.
type Join struct {
	// User is entered first. The other namespaces and all mounts belong to it.
	User *os.File
	// Net is the network namespace.
	Net *os.File
	// PID is the PID namespace. A new one is made below it, unless Share has PID.
	PID *os.File
	// UserAfter is a user namespace that is entered when everything is set up. Only with Inherit.
	UserAfter *os.File
	// UID and GID are the ids that the process gets in User, if SetUID and SetGID are set. They are ignored without
	// User.
	UID, GID       uint32
	SetUID, SetGID bool
}

// Clone is a sandbox that was begun before this program's main.
type Clone struct {
	Pid, Sock, Status int     // the process, our end of its socket, its status pipe
	UID, GID          int     // its owner's ids, the only ones that it has; for root there are none yet
	Flags             uintptr // its new namespaces, as flags of clone(2), without the mount namespace, which is always new
	Bounding          uint64  // its capability bounding set
	ChildStatus       int     // the number of the status pipe in it
	Inherit           bool    // it has all descriptors of the caller, and the caller's session keyring
}

// RootsCapabilities are those of root's commands with ids that nobody has outside, as bits: see package idmap.
const RootsCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT |
	1<<unix.CAP_SYS_PTRACE

// Begun returns a Clone, once; it then belongs to the caller. Not ok: there is none. Package prerun sets it. Nil: this
// program does not have that package.
var Begun func() (c Clone, ok bool)
