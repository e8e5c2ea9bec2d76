//go:build linux

package sandbox

import (
	"os"
	_ "unsafe" // for linkname

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
)

// These functions are in package nsexec, under other names. The linker connects them (go:linkname), because package
// prerun calls them before any package is initialized: a variable that nsexec sets would still be nil then.

// Of returns the options of cmd, which has to be an *nsexec.Cmd. They may be changed until Start.
//
//go:linkname Of github.com/nsrun/nsrun/nsexec.options
func Of(cmd any) *Options

// Ready makes a sandbox like that of cmd in another cgroup, and returns when it exists. A later Cmd that is alike, and
// that has this very File as its Cgroup, takes that sandbox. If Ready fails, that Cmd makes its own. If there is no
// such Cmd, Unready must be called before the File is closed.
//
//go:linkname Ready github.com/nsrun/nsrun/nsexec.makeReady
func Ready(cmd any, cgroup *os.File)

// Unready ends the sandbox that Ready has made in a cgroup, unless a Cmd has taken it.
//
//go:linkname Unready github.com/nsrun/nsrun/nsexec.unready
func Unready(cgroup *os.File)

// Compile lays out one Program that starts cmd. It is for programs in which the Go runtime has not started: cmd must
// have Bubblewrap and Inherit, and nothing for which the system has to be asked or memory to be allocated. Nil: cmd has
// something of that kind.
//
//go:linkname Compile github.com/nsrun/nsrun/nsexec.compile
func Compile(cmd any, room *prog.Room, known *Known) []byte

// Ahead makes the Clone of Begun, if there is one, mark names below a home directory as hidden, while it waits. hidden
// are relative paths, and a guess. A Cmd that gets that Clone, and has an overlay that hides most of them, uses these
// marks. ids are root's map of user and group ids, which the Cmd must have too. Nil: root's usual ones.
//
//go:linkname Ahead github.com/nsrun/nsrun/nsexec.markAhead
func Ahead(hidden []string, ids []IDMap)

// AheadUser opens the user namespace of the sandbox that Ahead was called for, if no Cmd has got it yet and it has
// these ids.
//
//go:linkname AheadUser github.com/nsrun/nsrun/nsexec.aheadUser
func AheadUser(ids []IDMap) (sys.FD, bool)

// IDMap is an nsexec.IDMap.
type IDMap struct{ Inside, Outside, Count uint32 }

// Known is what Compile has to be told, because it makes no system calls.
type Known struct {
	Status   int  // the number of the status pipe
	Other    int  // the number of the pipe's other end, which the clone has to close
	UID, GID ID   // of a new user namespace
	HostRoot bool // the caller is root on the host
	// Begun is the address of a page that the caller and the clone share. The clone writes there that it is about
	// to execute the command, and then has this page no longer. Nobody in the sandbox can take that back.
	Begun, PageSize uintptr
}

// ID maps one user or group id of the caller's user namespace to one of the sandbox.
type ID struct{ Inside, Outside uint32 }
