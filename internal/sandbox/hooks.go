//go:build linux

package sandbox

import (
	"os"
	_ "unsafe" // for linkname

	"github.com/nsrun/nsrun/internal/prog"
)

// Package nsexec has these functions, under other names. The linker joins them, because package prerun calls them before
// any package is initialised: a variable that nsexec sets would still be nil.

// Of returns the options of cmd, which has to be an *nsexec.Cmd. They may be changed until Start.
//
//go:linkname Of github.com/nsrun/nsrun/nsexec.options
func Of(cmd any) *Options

// Ready makes a sandbox like that of cmd in another cgroup, and returns when it is there: a later Cmd that is alike and has
// this very File as its Cgroup needs not make it then. What does not work is left to that one. Where there is no such Cmd,
// Unready has to be called, before the File is closed.
//
//go:linkname Ready github.com/nsrun/nsrun/nsexec.makeReady
func Ready(cmd any, cgroup *os.File)

// Unready ends what Ready has made in a cgroup, if no Cmd has it.
//
//go:linkname Unready github.com/nsrun/nsrun/nsexec.unready
func Unready(cgroup *os.File)

// Compile lays out one Program that starts cmd, which must have Bubblewrap and Inherit, and none of what needs questions to
// the system, or memory: it is for programs in which the Go runtime has not started. Nil: it cannot be done so.
//
//go:linkname Compile github.com/nsrun/nsrun/nsexec.compile
func Compile(cmd any, room *prog.Room, known *Known) []byte

// Ahead has the Clone of Begun, if there is one, mark names below a home directory as hidden, while it waits: hidden, relative
// paths, are a guess. A Cmd that has that Clone, and an overlay which hides most of them, need not do it then.
//
//go:linkname Ahead github.com/nsrun/nsrun/nsexec.markAhead
func Ahead(hidden []string)

// Known is what Compile has to be told, because it asks nobody.
type Known struct {
	Status   int  // the number of the status pipe
	Other    int  // the number of its other end, which the clone has to close
	UID, GID ID   // of a new user namespace
	HostRoot bool // the caller is root on the host
}

// ID maps one user or group id of the caller's user namespace to one of the sandbox.
type ID struct{ Inside, Outside uint32 }
