//go:build linux

package nsrun

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/limiter"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/renames"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Execution is a command that was started by Runner.Start. Wait must be called.
type Execution struct {
	runner  *Runner
	request Request
	args    []string
	began   time.Time
	parent  context.Context // the caller's
	ctx     context.Context // with the command's time
	cancel  context.CancelFunc
	timeout time.Duration

	session *overlay.Session // nil: there is no overlay
	resumed bool             // the session was there before
	turn    bool             // it is this command's turn to use the Runner's session
	dir     string
	cmd     *nsexec.Cmd
	bare    *bareCommand // without a sandbox, instead of cmd; nil: there is one
	notices []Notice
	direct  []string // folders that are written to directly

	sockets  socketSearch
	services services
	project  string         // without symbolic links; empty: none
	inPlace  *inPlaceSearch // nil: nothing is written to directly
	whole    bool           // all that is looked for is waited for before anything is planned
	explain  bool           // nothing is made
	caches   bool           // with explain: the caches of a session are planned too
	box      plan.Sandbox   // what was planned

	work           *host.WorkDir // of a workspace that is the root; nil: none
	homes          [2]homeUse    // $HOME, and plan.OtherHome
	playground     string        // where it is; empty: there is none
	homeNotice     string        // why there is no home layer; empty: there is, or is to be none
	later          host.Later
	live           *host.Live // for RunsLater; nil: nobody has asked
	watch          watch
	stdout, stderr *capture // nil: passed through, or merged
	metered        *capture // standard error that is passed through an output limit; nil: it is not
	stdin          [2]*os.File
	unread         atomic.Pointer[error] // why not all of Request.Stdin could be read; nil: nothing is known

	// What the Runner knew of this machine when the command was planned. Others that start at the same time may
	// find out more.
	landlock    bool // nothing is done by namespaces
	noOwners    bool // the kernel refuses mounts over mapped ones
	owners      bool // root's command can change owners in the session, see keepsOwners
	mirrored    bool // no overlay can be laid over the home directory
	plainCaches bool // nor over caches

	outgrown bool               // it is over because another process of it was killed for lack of memory
	walled   confined           // with LandlockBackend
	net      *network           // nil: none, or the host's
	observed *observed          // nil: nobody looks at what the command is refused
	messages *attempts.Messages // nil: none are kept
	listened bool               // messages were kept, if there were any
	said     []byte             // the messages that were kept
	told     []byte             // what was kept of standard output
	renames  *renames.Server    // nil: directories are renamed by the kernel alone
	mapped   []*os.File         // mounts that a sandbox with own ids is to have

	unmounted <-chan struct{} // closed when nothing of the sandbox is mounted any more; nil: that is so already

	hold  *limiter.Hold // nil: no limits
	meter *meter        // of the output; nil: it has no limit

	canceled atomic.Bool // the command was asked to end, because its time was up
	unstored error       // why the changes are in memory only; nil: they are not
	settled  bool        // what it had of the network is in the result
	waiting  sync.Mutex  // held by who waits for the command's end, and does what follows
	waited   bool
	ending   sync.Once // for ended
	ended    error     // what the command ended with
	gone     bool      // the session is no more
	result   Result
}

func (x *Execution) closeStdin() {
	for _, f := range x.stdin {
		if f != nil {
			_ = f.Close()
		}
	}
	x.stdin = [2]*os.File{}
}

// Signal sends a signal to the command. SIGSTOP stops everything in the sandbox, and SIGCONT continues it.
func (x *Execution) Signal(s os.Signal) error {
	if sig, ok := s.(syscall.Signal); ok && x.bare != nil {
		return x.bare.signal(sig)
	}
	return x.cmd.Signal(s)
}

// Session returns the session that the command writes to. With Hold it belongs to the caller, who
// must close it; otherwise it must not be closed. Nil: there is no overlay.
func (x *Execution) Session() *overlay.Session { return x.session }

// Places returns the directories to watch: for a folder with an overlay, the directory that holds
// what was written; for other folders, the folder itself. With overlay.EngineTmpfs nothing appears
// there before the command has ended; with overlay.EngineCopy all of the project is there.
func (x *Execution) Places() (list []Place) {
	if x.session != nil {
		for _, r := range x.session.Roots() {
			list = append(list, Place{r.Upper, r.Path})
		}
	}
	for _, dir := range x.direct {
		list = append(list, Place{dir, dir})
	}
	return list
}

// Notices report unusual conditions that are not errors.
func (x *Execution) Notices() []Notice { return x.notices }

// public turns an error of the packages below into one that embedders know.
func (x *Execution) public(err error) error {
	return public(err, x.runner.config.Rules, x.request.Paths)
}

// Network says what the command used of the network so far. Refused is counted as if the command had failed.
func (x *Execution) Network() Network {
	switch {
	case x.net != nil:
		return x.net.result()
	case x.request.Network, x.bare != nil:
		return Network{Mode: "host"}
	}
	return Network{Mode: "none", Refused: refused(sandbox.Of(x.cmd).Unsent())}
}

// Changes are what Collect found.
func (x *Execution) Changes() []overlay.Change { return slices.Clip(x.result.Changes) }

// Unstored says why the changes of the command are in memory only. Nil: they are on disk.
func (x *Execution) Unstored() error { return x.unstored }

// note adds an error that stops nothing to the Notices. Nil: there was none.
func (x *Execution) note(kind NoticeKind, err error) {
	if err != nil {
		x.result.note(kind, err.Error())
	}
}
