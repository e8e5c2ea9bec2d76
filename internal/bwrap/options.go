package bwrap

// Group says under which heading of the help an option stands.
type Group uint8

// The groups, in the order of the help.
const (
	GroupGeneral Group = iota
	GroupNamespaces
	GroupIdentity
	GroupEnvironment
	GroupMounts
	GroupOverlays
	GroupFiles
	GroupModifiers
	GroupProcess
	GroupSecurity
	GroupDescriptors
	groupCount
)

func (g Group) String() string {
	switch g {
	case GroupGeneral:
		return "General"
	case GroupNamespaces:
		return "Namespaces"
	case GroupIdentity:
		return "Identity"
	case GroupEnvironment:
		return "Environment"
	case GroupMounts:
		return "Mounts"
	case GroupOverlays:
		return "Overlays"
	case GroupFiles:
		return "Files"
	case GroupModifiers:
		return "Modifiers"
	case GroupProcess:
		return "Process"
	case GroupSecurity:
		return "Security"
	case GroupDescriptors:
		return "Descriptors"
	}
	return ""
}

// Option is one row of the table.
type Option struct {
	// Name is the word that selects the option, dashes included.
	Name string
	// Args names the words it takes, separated by single spaces; empty if it takes none. The names are chosen so
	// that a completion can go by them: FD, SRC, DEST, DIR, CAP and so on mean the same everywhere.
	Args string
	// Help says what it does; lines are separated by "\n".
	Help string
	// Group is the heading it stands under.
	Group Group
	// Ours marks what bubblewrap does not have.
	Ours bool
	// LastWins marks options whose repetition draws a warning.
	LastWins bool
	// Hidden keeps a row out of the help.
	Hidden bool
	// Prefix marks a row whose name is only the start of the word; the rest of the word is its value.
	Prefix bool

	id    optionID
	arity arity
}

// NArgs returns how many words follow the option.
func (o *Option) NArgs() int {
	if o.Args == "" {
		return 0
	}
	return countByte(o.Args, ' ') + 1
}

// arity selects the complaint about missing words. bubblewrap has two wordings
// for one word, and one option that complains under another's name.
type arity uint8

const (
	arityPlain    arity = iota // "takes an argument", "takes two arguments", …
	arityOne                   // "takes one argument"
	arityAsBindFD              // in the name of --bind-fd
	arityNone                  // no complaint: whatever comes next complains
)

func (o *Option) missing() string {
	name := o.Name
	if o.arity == arityAsBindFD {
		name = "--bind-fd"
	}
	switch n := o.NArgs(); {
	case n == 1 && o.arity == arityOne:
		return name + " takes one argument"
	case n == 1:
		return name + " takes an argument"
	case n == 2:
		return name + " takes two arguments"
	default:
		return name + " takes three arguments"
	}
}

type optionID uint8

const (
	optHelp optionID = iota
	optVersion
	optArgs
	optArgv0
	optLevelPrefix
	optUnshareAll
	optShareNet
	optUnshareUser
	optUnshareUserTry
	optUnshareIPC
	optUnsharePID
	optUnshareNet
	optUnshareUTS
	optUnshareCgroup
	optUnshareCgroupTry
	optUserns
	optUserns2
	optDisableUserns
	optAssertUsernsDisabled
	optPidns
	optNetns
	optAllowLoopbackFailure
	optUID
	optGID
	optUIDMap
	optGIDMap
	optHostname
	optChdir
	optClearenv
	optSetenv
	optUnsetenv
	optBind
	optBindTry
	optROBind
	optROBindTry
	optDevBind
	optDevBindTry
	optBindFD
	optROBindFD
	optRemountRO
	optProc
	optDev
	optTmpfs
	optMqueue
	optOverlaySrc
	optOverlay
	optTmpOverlay
	optROOverlay
	optOverlayHide
	optOverlaySubmounts
	optCreateMountPoints
	optDir
	optFile
	optBindData
	optROBindData
	optSymlink
	optChmod
	optPerms
	optSize
	optNewSession
	optDieWithParent
	optAsPID1
	optForwardSignals
	optExitCodes
	optKillOnExit
	optLockFile
	optCapAdd
	optCapDrop
	optSeccomp
	optAddSeccompFD
	optSeccompFile
	optExecLabel
	optFileLabel
	optNotASecurityBoundary
	optSyncFD
	optBlockFD
	optUsernsBlockFD
	optInfoFD
	optJSONStatusFD
	optDebugOpt
	optCount
)

// table holds every option, in the order of the help. It is data without code,
// so that starting the program does not pay for it.
var table = [...]Option{
	{id: optHelp, Name: "--help", Group: GroupGeneral,
		Help: "Show this text and exit"},
	{id: optVersion, Name: "--version", Group: GroupGeneral,
		Help: "Show the version and exit"},
	{id: optArgs, Name: "--args", Args: "FD", Group: GroupGeneral,
		Help: "Read more options from descriptor FD, each ended by a NUL byte"},
	{id: optLevelPrefix, Name: "--level-prefix", Group: GroupGeneral,
		Help: "Start every message with its severity, as <3> or <4>"},

	{id: optUnshareAll, Name: "--unshare-all", Group: GroupNamespaces,
		Help: "New namespaces of all kinds (user and cgroup as by the -try forms)"},
	{id: optShareNet, Name: "--share-net", Group: GroupNamespaces,
		Help: "Stay in the caller's network after --unshare-all"},
	{id: optUnshareUser, Name: "--unshare-user", Group: GroupNamespaces,
		Help: "New user namespace (a caller other than root always gets one)"},
	{id: optUnshareUserTry, Name: "--unshare-user-try", Group: GroupNamespaces,
		Help: "New user namespace where the system has them"},
	{id: optUnshareIPC, Name: "--unshare-ipc", Group: GroupNamespaces,
		Help: "New IPC namespace"},
	{id: optUnsharePID, Name: "--unshare-pid", Group: GroupNamespaces,
		Help: "New process-id namespace"},
	{id: optUnshareNet, Name: "--unshare-net", Group: GroupNamespaces,
		Help: "New network namespace, with loopback and nothing else"},
	{id: optUnshareUTS, Name: "--unshare-uts", Group: GroupNamespaces,
		Help: "New hostname namespace"},
	{id: optUnshareCgroup, Name: "--unshare-cgroup", Group: GroupNamespaces,
		Help: "New cgroup namespace"},
	{id: optUnshareCgroupTry, Name: "--unshare-cgroup-try", Group: GroupNamespaces,
		Help: "New cgroup namespace where the system has them"},
	{id: optUserns, Name: "--userns", Args: "FD", Group: GroupNamespaces, LastWins: true,
		Help: "Join the user namespace FD refers to (not with --unshare-user)"},
	{id: optUserns2, Name: "--userns2", Args: "FD", Group: GroupNamespaces, LastWins: true,
		Help: "Join this user namespace once the mounts are done (with --userns)"},
	{id: optDisableUserns, Name: "--disable-userns", Group: GroupNamespaces,
		Help: "Let nothing inside make user namespaces (needs --unshare-user)"},
	{id: optAssertUsernsDisabled, Name: "--assert-userns-disabled", Group: GroupNamespaces,
		Help: "Refuse to start if something inside could make user namespaces"},
	{id: optPidns, Name: "--pidns", Args: "FD", Group: GroupNamespaces, LastWins: true,
		Help: "Join this process-id namespace (with --unshare-pid: make one below it)"},
	{id: optNetns, Name: "--netns", Args: "NETNS", Group: GroupNamespaces, Ours: true, LastWins: true,
		Help: "Join a network namespace, by name or by path"},
	{id: optAllowLoopbackFailure, Name: "--allow-loopback-failure", Group: GroupNamespaces, Ours: true,
		Help: "With --unshare-net, do without loopback if it cannot be set up"},

	{id: optUID, Name: "--uid", Args: "UID", Group: GroupIdentity, LastWins: true,
		Help: "User id inside (needs --unshare-user or --userns)"},
	{id: optGID, Name: "--gid", Args: "GID", Group: GroupIdentity, LastWins: true,
		Help: "Group id inside (needs --unshare-user or --userns)"},
	{id: optUIDMap, Name: "--uid-map", Args: "INSIDE:OUTSIDE:COUNT", Group: GroupIdentity, Ours: true,
		Help: "Map a range of user ids, besides the caller's own, which is UID;\nwith newuidmap where that is needed; may be repeated (needs\n--unshare-user)"},
	{id: optGIDMap, Name: "--gid-map", Args: "INSIDE:OUTSIDE:COUNT", Group: GroupIdentity, Ours: true,
		Help: "Map a range of group ids, likewise"},
	{id: optHostname, Name: "--hostname", Args: "NAME", Group: GroupIdentity, LastWins: true,
		Help: "Hostname inside (needs --unshare-uts)"},

	{id: optClearenv, Name: "--clearenv", Group: GroupEnvironment,
		Help: "Drop all variables"},
	{id: optSetenv, Name: "--setenv", Args: "VAR VALUE", Group: GroupEnvironment,
		Help: "Set a variable"},
	{id: optUnsetenv, Name: "--unsetenv", Args: "VAR", Group: GroupEnvironment,
		Help: "Drop a variable"},

	{id: optBind, Name: "--bind", Args: "SRC DEST", Group: GroupMounts,
		Help: "Show the host's SRC at DEST, writable"},
	{id: optBindTry, Name: "--bind-try", Args: "SRC DEST", Group: GroupMounts,
		Help: "The same, or nothing if SRC does not exist"},
	{id: optROBind, Name: "--ro-bind", Args: "SRC DEST", Group: GroupMounts,
		Help: "Show the host's SRC at DEST, read-only"},
	{id: optROBindTry, Name: "--ro-bind-try", Args: "SRC DEST", Group: GroupMounts,
		Help: "The same, or nothing if SRC does not exist"},
	{id: optDevBind, Name: "--dev-bind", Args: "SRC DEST", Group: GroupMounts,
		Help: "Show the host's SRC at DEST, writable, device files usable"},
	{id: optDevBindTry, Name: "--dev-bind-try", Args: "SRC DEST", Group: GroupMounts,
		Help: "The same, or nothing if SRC does not exist"},
	{id: optBindFD, Name: "--bind-fd", Args: "FD DEST", Group: GroupMounts,
		Help: "Show the file or directory open as FD at DEST, writable"},
	{id: optROBindFD, Name: "--ro-bind-fd", Args: "FD DEST", Group: GroupMounts, arity: arityAsBindFD,
		Help: "Show the file or directory open as FD at DEST, read-only"},
	{id: optRemountRO, Name: "--remount-ro", Args: "DEST", Group: GroupMounts, arity: arityOne,
		Help: "Make the mount at DEST read-only, but not what is mounted below it"},
	{id: optProc, Name: "--proc", Args: "DEST", Group: GroupMounts,
		Help: "A proc file system at DEST"},
	{id: optDev, Name: "--dev", Args: "DEST", Group: GroupMounts,
		Help: "A minimal /dev at DEST"},
	{id: optTmpfs, Name: "--tmpfs", Args: "DEST", Group: GroupMounts,
		Help: "An empty tmpfs at DEST (--perms, --size)"},
	{id: optMqueue, Name: "--mqueue", Args: "DEST", Group: GroupMounts,
		Help: "A POSIX message queue file system at DEST"},
	{id: optCreateMountPoints, Name: "--create-mount-points", Group: GroupMounts, Ours: true,
		Help: "Make DESTs that are missing below read-only binds, in the sandbox\nonly"},

	{id: optOverlaySrc, Name: "--overlay-src", Args: "SRC", Group: GroupOverlays, arity: arityNone,
		Help: "A read-only layer of the overlay that follows, above those before it"},
	{id: optOverlay, Name: "--overlay", Args: "RWSRC WORKDIR DEST", Group: GroupOverlays,
		Help: "Stack the layers at DEST; writes go to RWSRC on the host. WORKDIR:\nan empty directory on the file system of RWSRC"},
	{id: optTmpOverlay, Name: "--tmp-overlay", Args: "DEST", Group: GroupOverlays,
		Help: "Stack the layers at DEST; writes are forgotten at the end"},
	{id: optROOverlay, Name: "--ro-overlay", Args: "DEST", Group: GroupOverlays,
		Help: "Stack two or more layers at DEST, read-only"},
	{id: optOverlayHide, Name: "--overlay-hide", Args: "PATH", Group: GroupOverlays, Ours: true,
		Help: "Leave out PATH, relative to the overlay, of the overlay that\nfollows; may be repeated"},
	{id: optOverlaySubmounts, Name: "--overlay-submounts", Group: GroupOverlays, Ours: true,
		Help: "Show what is mounted below the layers of the overlay that follows,\nread-only (root only: others get no overlay of such a layer)"},

	{id: optDir, Name: "--dir", Args: "DEST", Group: GroupFiles,
		Help: "A directory at DEST, unless there is one (--perms)"},
	{id: optFile, Name: "--file", Args: "FD DEST", Group: GroupFiles,
		Help: "A file at DEST with what can be read from FD (--perms)"},
	{id: optBindData, Name: "--bind-data", Args: "FD DEST", Group: GroupFiles,
		Help: "The same, mounted over DEST, writable (--perms)"},
	{id: optROBindData, Name: "--ro-bind-data", Args: "FD DEST", Group: GroupFiles,
		Help: "The same, mounted over DEST, read-only (--perms)"},
	{id: optSymlink, Name: "--symlink", Args: "TARGET DEST", Group: GroupFiles,
		Help: "A symbolic link at DEST that points to TARGET"},
	{id: optChmod, Name: "--chmod", Args: "OCTAL DEST", Group: GroupFiles,
		Help: "Change the permissions of DEST, which has to exist"},

	{id: optPerms, Name: "--perms", Args: "OCTAL", Group: GroupModifiers,
		Help: "Permissions of what the next option makes"},
	{id: optSize, Name: "--size", Args: "BYTES", Group: GroupModifiers,
		Help: "Size limit of the tmpfs the next option makes"},

	{id: optArgv0, Name: "--argv0", Args: "VALUE", Group: GroupProcess, arity: arityOne,
		Help: "Give COMMAND this as its own name"},
	{id: optChdir, Name: "--chdir", Args: "DIR", Group: GroupProcess, LastWins: true, arity: arityOne,
		Help: "Start COMMAND in DIR"},
	{id: optNewSession, Name: "--new-session", Group: GroupProcess,
		Help: "Detach COMMAND from the terminal"},
	{id: optDieWithParent, Name: "--die-with-parent", Group: GroupProcess,
		Help: "Kill everything with SIGKILL when the caller dies"},
	{id: optAsPID1, Name: "--as-pid-1", Group: GroupProcess,
		Help: "Make COMMAND process 1 itself (needs --unshare-pid)"},
	{id: optLockFile, Name: "--lock-file", Args: "DEST", Group: GroupProcess,
		Help: "Hold a read lock on DEST, a file inside, while the sandbox lives"},
	{id: optForwardSignals, Name: "--forward-signals", Group: GroupProcess, Ours: true,
		Help: "Pass signals on to COMMAND"},
	{id: optExitCodes, Name: "--exit-codes", Group: GroupProcess, Ours: true,
		Help: "Exit with 125, 126 or 127 if COMMAND could not be started"},
	{id: optKillOnExit, Name: "--kill-on-exit", Group: GroupProcess, Ours: true,
		Help: "Kill what is left in the sandbox when COMMAND ends (needs\n--unshare-pid)"},

	{id: optCapAdd, Name: "--cap-add", Args: "CAP", Group: GroupSecurity,
		Help: "Give COMMAND a capability (ALL: every one)"},
	{id: optCapDrop, Name: "--cap-drop", Args: "CAP", Group: GroupSecurity,
		Help: "Take a capability (ALL: every one) from COMMAND"},
	{id: optSeccomp, Name: "--seccomp", Args: "FD", Group: GroupSecurity, LastWins: true,
		Help: "Filter system calls by the BPF program read from FD"},
	{id: optAddSeccompFD, Name: "--add-seccomp-fd", Args: "FD", Group: GroupSecurity,
		Help: "The same; may be repeated (not with --seccomp)"},
	{id: optSeccompFile, Name: "--seccomp-file", Args: "FILE", Group: GroupSecurity, Ours: true,
		Help: "Filter system calls by the BPF program in FILE; may be repeated"},
	{id: optExecLabel, Name: "--exec-label", Args: "LABEL", Group: GroupSecurity, LastWins: true,
		Help: "SELinux label of COMMAND"},
	{id: optFileLabel, Name: "--file-label", Args: "LABEL", Group: GroupSecurity, LastWins: true,
		Help: "SELinux label of the files that are made"},
	{id: optNotASecurityBoundary, Name: "--not-a-security-boundary", Group: GroupSecurity,
		Help: "Only warn where parts of the set-up fail; for sandboxes that\nprotect nothing"},

	{id: optSyncFD, Name: "--sync-fd", Args: "FD", Group: GroupDescriptors, LastWins: true,
		Help: "Keep FD open while the sandbox lives"},
	{id: optBlockFD, Name: "--block-fd", Args: "FD", Group: GroupDescriptors, LastWins: true,
		Help: "Start COMMAND once something can be read from FD"},
	{id: optUsernsBlockFD, Name: "--userns-block-fd", Args: "FD", Group: GroupDescriptors, LastWins: true,
		Help: "Leave the id maps to the caller and wait for FD (needs --info-fd)"},
	{id: optInfoFD, Name: "--info-fd", Args: "FD", Group: GroupDescriptors, LastWins: true,
		Help: "Write process id and namespaces to FD, as JSON"},
	{id: optJSONStatusFD, Name: "--json-status-fd", Args: "FD", Group: GroupDescriptors, LastWins: true,
		Help: "Write start and exit to FD, a JSON document each"},

	{id: optDebugOpt, Name: "--debug-opt=", Group: GroupGeneral, Hidden: true, Prefix: true,
		Help: "force-openat-fallback: resolve destinations without openat2"},
}

// Options returns a copy of the table, without the options of our own unless extensions is set.
func Options(extensions bool) []Option {
	opts := make([]Option, 0, len(table))
	for i := range table {
		if extensions || !table[i].Ours {
			opts = append(opts, table[i])
		}
	}
	return opts
}

// lookup finds the option a word selects, or nil.
func lookup(word string, extensions bool) *Option {
	if len(word) < 3 || word[0] != '-' {
		return nil
	}
	for i := range table {
		o := &table[i]
		if o.Name == word && !o.Prefix || o.Prefix && hasPrefix(word, o.Name) {
			if o.Ours && !extensions {
				return nil
			}
			return o
		}
	}
	return nil
}
