package nsrun

import (
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
)

// ErrProject is what Run and Start return for a folder that cannot be a project, whichever package finds that out: it
// is overlay.ErrRoot.
var ErrProject = overlay.ErrRoot

// Config says what the commands of a Runner see and may do. It can be copied.
//
// The zero Config gives commands the host's files, read-only and without secrets, private
// places to write to (/tmp, /var/tmp, /run, /dev, $HOME/playground), and no network.
type Config struct {
	// Sandbox says whether commands must be run in a sandbox. Zero: SandboxRequired.
	Sandbox SandboxMode
	// Backend says what keeps commands in their sandbox. Zero: what this machine allows.
	Backend Backend
	// Project is the directory that commands work in; an absolute path that exists. If it is a linked git work
	// tree, or a submodule, commands write to its git directory outside of it in the same way. Empty: none.
	Project string
	// Mode says how commands write to Project. Zero: Overlay.
	Mode Mode
	// Shared are more folders. Nil: none.
	Shared []Folder
	// Rules are for more paths, in order: later ones win, over folders too. Nil: none.
	Rules []Rule
	// BlockExisting runs a command even if something that a Blocked rule names could appear later, and be seen: a
	// Notice says where. (There is also a Notice where an existing file could be replaced.) False: such commands
	// are not run, and the error is a *RuleError.
	BlockExisting bool
	// Preset says what kind of commands these are, and Presets has more presets; all of them apply. Zero:
	// DefaultPreset.
	Preset  Preset
	Presets []Preset

	// After says what happens to changes in folders with an overlay when a command has ended. Zero: Keep.
	After After
	// AllowExec makes After: Commit also commit files that run later (overlay.Change.Runs): hooks, settings of
	// editors, and the like, which are executed outside the sandbox. False: they are held back, see Result.Held.
	AllowExec bool
	// AllowSpecial makes After: Commit also commit special files (overlay.Change.Special): FIFOs, sockets,
	// set-user-id files. False: they are held back, see Result.Held.
	AllowSpecial bool
	// Session is the id of a kept session to continue (see overlay.Open). Its roots are the folders with an
	// overlay, and there must be no others. Empty: a new session.
	Session string
	// On is the id of a session that new sessions are based on (see overlay.Options). Empty: none.
	On string
	// Engine says how writes are kept apart. Zero: chosen by the file systems.
	Engine overlay.Engine
	// StateDir is the directory of the sessions, an absolute path. Empty: overlay.DefaultDir.
	StateDir string

	// Net is what commands may reach on the network, with any program and without a question: see
	// netpolicy.ParsePolicy. If its HostAddrs are nil, they are found out. Zero: nothing.
	Net netpolicy.Policy
	// Enforcer says how Net is enforced. Zero: AutoEnforcer.
	Enforcer Enforcer
	// Publish are TCP ports of commands' servers that this host can reach, at 127.0.0.1. Nil: none.
	Publish []uint16
	// AllowUnix are unix sockets of the host that commands can connect to (unix(7)): absolute paths that exist, or
	// the constants for services, such as SSHAgent. AbstractSockets stands for all sockets without a path, for
	// commands with Request.Network (for other commands, a namespace of their own or rules close these). Nil: none.
	AllowUnix []string

	// Devices are devices of this host that commands can use: "nvidia", "dri" (graphics cards), "kvm", or absolute
	// paths of character devices below /dev. Commands can open them with this user's permissions. Nil: none but the
	// harmless ones (null, zero, full, random, urandom, tty, and terminals).
	Devices []string
	// UserNamespaces lets commands make user namespaces, as programs with a sandbox of their own do (browsers,
	// bwrap, nsrun): see nsexec.FilterOptions. Hidden and read-only files stay so in them, but commands can reach
	// more of the kernel. It needs an ordinary user and Linux 5.14. False: making them fails, except with
	// BrowserPreset.
	UserNamespaces bool
	// OwnIDs gives root's commands user and group ids that nobody has outside. In the sandbox they are the usual
	// ones: root is 0, and files keep their owners. Commands have root's rights to the files of folders, of the
	// home directory and of Rules: owners, permissions, other users. For all other files they are nobody, also for
	// those of root. It needs root, Linux 5.19, and file systems with idmapped mounts (mount_setattr(2)); without
	// them commands fail with an *Error. False: root's commands have the id of the host's root. If all their writes
	// are kept apart in a session, and there are such mounts, they have root's rights there, and all other ids are
	// theirs alone; else they have no privileges.
	OwnIDs bool
	// Credentials are secrets that commands can use but not read: see package credential. The variable that
	// Rule.Variable names has the address to which a command sends plain HTTP. Commands need a network namespace of
	// their own for them: Request.Network is an error, and AutoEnforcer means BrokerEnforcer. Nil: none.
	Credentials []credential.Rule
	// Gateway serves the Credentials: see package credential/gateway. Nil: Credentials are an error.
	Gateway Gateway

	// Env is added to the environment of this program without its secrets (SafeEnv): "K=V", or "K" to pass on a
	// variable that SafeEnv removes. Nil: nothing.
	Env []string
	// ClearEnv passes nothing on but PATH and HOME. False: see Env.
	ClearEnv bool
	// Timeout ends commands that take longer. With Commit, it is also how long a commit waits for another one to the
	// project, but at least a second; after that the changes are kept. Zero: no limit.
	Timeout time.Duration
	// Grace is the time between SIGTERM, when Timeout is over, and SIGKILL to all processes of the command. Zero: 2
	// seconds.
	Grace time.Duration
	// Limits of each command. Zero: none.
	Limits Limits
	// Why makes Result.Refusals complete, whatever commands print about refusals. Each system call with a path then
	// takes longer, and a command cannot set up a listener of its own (seccomp_unotify(2)). False: Refusals has
	// only what is known at no cost.
	Why bool
	// Watch reports what commands write while they run: Execution.Events, and Result.Touched. Events name the
	// process only if root runs another command in a session that has changes. False: nothing is watched.
	Watch bool
	// MaxOutput is how much of standard output, and of standard error, a Result keeps, in bytes: one half from the
	// beginning, one half from the end. Zero: DefaultMaxOutput. Negative: everything, whatever memory that takes.
	MaxOutput int

	// Home says what happens to files that commands write below the home directory, outside the folders. With
	// StrictPreset and WorkspaceRootPreset there is no home directory. Zero: HomeReadOnly.
	Home HomeMode
	// HomeSize is how much a home layer keeps, in bytes, as du(1) counts them. After a command that made it larger,
	// nsrun removes caches in it, the largest first, and all of it if that is not enough. Zero: DefaultHomeSize.
	HomeSize int64
	// Caches are more directories below the home directory that programs fill again when they are missing: absolute
	// paths, or paths that begin with "~/". They are treated like the caches that nsrun knows: they are the first
	// to be removed from a home layer; without a home layer, a command's writes to them are gone when it ends; and
	// with BuildPreset, commands write to the directories themselves. Nil: none.
	Caches []string
	// Retention is how long committed and discarded sessions stay in StateDir. Zero: overlay.Retention.
	Retention time.Duration

	// Playground is the directory that commands see as $HOME/playground, an absolute path. It is created if it is
	// missing. As it is written in place, root's commands have no privileges then, except with OwnIDs. Empty: the
	// project's own, see ProjectPlayground.
	Playground string
	// NoPlayground gives commands no playground. False: there always is one.
	NoPlayground bool

	// Approver decides what a Request asks for beyond this Config. Nil: everything is denied.
	Approver Approver
	// Permissions keep answers for later, for this project. Nil: answers last as long as the Runner.
	Permissions Permissions
	// Recorder records what each command did. Nil: nothing is recorded.
	Recorder Recorder
}

// After says what happens to the changes that a command made in folders with an overlay.
type After uint8

const (
	// Keep runs all commands of a Runner in one session, one at a time: each sees what the earlier ones wrote, and
	// the folders do not change until Runner.Commit.
	Keep After = iota
	// Commit gives each command a session, and commits it when the command has ended, whatever its exit status: as
	// if the command had run without a sandbox, except that the changes can be undone. If somebody else changed the
	// same files meanwhile, or if the context of Run ended, the session is kept, and so are files that would run
	// later (Config.AllowExec) or are special (Config.AllowSpecial).
	Commit
	// Discard gives each command a session that is discarded: the Result lists the changes, and they are nowhere
	// else.
	Discard
	// Hold gives each command a session, and leaves it to the caller, open: Execution.Session.
	Hold
)

const errNegative = "the time limit is negative"
