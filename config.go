package nsrun

import (
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
)

// Config says what the commands of a Runner see and may do. It can be copied.
//
// The zero Config gives commands the host's files, read-only and without secrets, private
// places to write to (/tmp, /var/tmp, /run, /dev, $HOME/playground), and no network.
type Config struct {
	// Sandbox says whether commands must be run in a sandbox. Zero: SandboxRequired.
	Sandbox SandboxMode
	// Backend says what keeps commands in their sandbox. Zero: what this machine allows.
	Backend Backend
	// Project is the directory that commands work in; an absolute path that exists. Where
	// it is a linked git work tree, or a submodule, the git directory outside of it is
	// written to in the same way. Empty: none.
	Project string
	// Mode says how commands write to Project. Zero: Overlay.
	Mode Mode
	// Shared are more folders. Nil: none.
	Shared []Folder
	// Rules are for more paths, in order: later ones win, over folders too. Nil: none.
	Rules []Rule
	// BlockExisting runs commands also where what a Blocked rule means could come up later, and be seen: a Notice says
	// where, as it does where what exists could be replaced. False: such commands are not run, with a *RuleError.
	BlockExisting bool
	// Preset says what kind of commands these are, and Presets are more of them: what each one says holds.
	// Zero: DefaultPreset.
	Preset  Preset
	Presets []Preset

	// After says what becomes of what commands write to folders with an overlay. Zero:
	// Keep.
	After After
	// AllowExec has After: Commit commit what runs later too (overlay.Change.Runs): hooks,
	// settings of editors, and the like, which are executed outside of the sandbox. False:
	// that is held back, see Result.Held.
	AllowExec bool
	// AllowSpecial has After: Commit commit special files too (overlay.Change.Special): FIFOs,
	// sockets, set-user-id files. False: they are held back, see Result.Held.
	AllowSpecial bool
	// Session is a session that was kept (see overlay.Open), to go on with; its roots are
	// the folders with an overlay, and there must be no others. Empty: a new one.
	Session string
	// On is a session that new ones stand on (see overlay.Options). Empty: none.
	On string
	// Engine says how writes are kept apart. Zero: as suits the file systems.
	Engine overlay.Engine
	// StateDir is the directory of the sessions, an absolute path. Empty: overlay.DefaultDir.
	StateDir string

	// Net is what commands reach of the network, with any program, and without being asked:
	// see netpolicy.ParsePolicy. HostAddrs may be nil: they are found then. Zero: nothing.
	Net netpolicy.Policy
	// Enforcer says how. Zero: as this process may.
	Enforcer Enforcer
	// Publish are TCP ports of commands' servers that can be reached from this host, at
	// 127.0.0.1. Nil: none.
	Publish []uint16
	// AllowUnix are unix sockets of the host that commands can connect to, absolute paths that
	// exist; AbstractSockets are those without a path, of whatever name, for commands with Request.Network
	// (others have a namespace of their own for them, or rules); SSHAgent is a service in the place of one. Nil: none.
	AllowUnix []string

	// Devices are devices of this host that commands can use: "nvidia", "dri" (graphics cards), "kvm", or absolute paths of
	// character devices below /dev. With those this user may open them as outside. Nil: none but the harmless ones.
	Devices []string
	// UserNamespaces lets commands make user namespaces, as programs with a sandbox of their own do (browsers, bwrap, nsrun):
	// see nsexec.FilterOptions. What is hidden or read-only stays so in them, but more of the kernel can be reached. It takes
	// an ordinary user and Linux 5.14. False: that is refused, except with BrowserPreset.
	UserNamespaces bool
	// Credentials are used by commands, which do not have them: see package credential. A command finds the address to
	// speak plain HTTP to in the variable that Rule.Variable names. It takes a network namespace of the command's own: no
	// Request.Network, and BrokerEnforcer, which AutoEnforcer is then. Nil: none.
	Credentials []credential.Rule
	// Gateway serves them: that of package credential/gateway. Nil: there can be no Credentials.
	Gateway Gateway

	// Env is added to the environment of this program without its secrets (SafeEnv):
	// "K=V", or "K" to pass on what SafeEnv leaves out. Nil: nothing.
	Env []string
	// ClearEnv passes nothing on but PATH and HOME. False: see Env.
	ClearEnv bool
	// Timeout ends commands that take longer. Zero: no limit.
	Timeout time.Duration
	// Grace is how long commands go on after they were asked to end because of Timeout (SIGTERM), before all of them is
	// killed. Zero: 2 seconds.
	Grace time.Duration
	// Limits of each command. Zero: none.
	Limits Limits
	// Why finds out exactly what commands are refused, whatever they say of it: Result.Refusals. Each system call with a path
	// takes longer then. A command that sets up a listener of its own (seccomp_unotify(2)) cannot. False: it is found at no
	// cost, and not all of it.
	Why bool
	// Watch lets what commands write be seen while they run: Execution.Events, and
	// Result.Touched. False: nothing is watched. Events say which process it was only where
	// root runs another command in a session that has changes.
	Watch bool
	// MaxOutput is how much of standard output, and of standard error, a Result keeps, in
	// bytes: one half from the beginning, one from the end. Zero: DefaultMaxOutput.
	// Negative: all, however much memory it takes.
	MaxOutput int

	// Home says what becomes of what commands write below the home directory, outside of the folders. With StrictPreset and
	// WorkspaceRootPreset there is none. Zero: HomeReadOnly.
	Home HomeMode
	// HomeSize is how much a home layer keeps, in bytes, as du(1) counts them: when a command has ended that made it larger,
	// caches in it are removed, the largest first, or all of it. Zero: DefaultHomeSize.
	HomeSize int64
	// Caches are more directories that programs fill again when they are missing, below the home directory: absolute paths, or
	// such that begin with "~/". As those that nsrun knows they are the first to be removed from a home layer, without one
	// commands write to them as long as they run, and with BuildPreset for good. Nil: none.
	Caches []string
	// Retention is how long sessions of StateDir stay that were committed or discarded. Zero: overlay.Retention.
	Retention time.Duration

	// Playground is what commands have as $HOME/playground, an absolute path. It is made
	// if it is missing. Empty: the project's own, see ProjectPlayground.
	Playground string
	// NoPlayground leaves it away. False: it is always there.
	NoPlayground bool

	// Approver answers what a Request asks for beyond this Config. Nil: all is denied.
	Approver Approver
	// Permissions keep answers for later, for this project. Nil: they last as long as
	// the Runner.
	Permissions Permissions
	// Recorder is told what each command did. Nil: nobody is.
	Recorder Recorder
}

// After says what becomes of what a command wrote to folders with an overlay.
type After uint8

const (
	// Keep runs all commands of a Runner in one session, one at a time: each sees what
	// the ones before it wrote, and nothing of that is in the folders until Runner.Commit.
	Keep After = iota
	// Commit gives each command a session, and commits it when the command has ended,
	// whatever its exit status: as if it had been run without a sandbox, but that it can
	// be undone. Where somebody else changed the same files meanwhile, it is kept, and so is
	// what would run later (Config.AllowExec) or is special (Config.AllowSpecial).
	Commit
	// Discard gives each command a session that is thrown away: what it wrote is in the
	// Result's list, and nowhere else.
	Discard
	// Hold gives each command a session, and leaves it to the caller, open:
	// Execution.Session.
	Hold
)

const errNegative = "the time limit is negative"
