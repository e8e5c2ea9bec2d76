package bwrap

// Opt is a value that may not have been given.
type Opt[T any] struct {
	Set   bool
	Value T
}

func some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// Config is what a command line asks for. Its zero value asks for nothing.
type Config struct {
	// Command is COMMAND with its arguments.
	Command []string
	// Argv0 is the name COMMAND is given; it is looked up by Command[0] all the same.
	Argv0 Opt[string]
	// Chdir is where COMMAND starts.
	Chdir Opt[string]
	// Environ are the changes of the environment, in order.
	Environ []EnvOp

	// Ops are the steps of the set-up, in order.
	Ops []SetupOp

	// The namespaces that are to be new. UnshareUser is the outcome of --unshare-user, of --unshare-user-try and of
	// who the caller is. UnshareCgroupTry means: if the system has them.
	UnshareUser      bool
	UnshareIPC       bool
	UnsharePID       bool
	UnshareNet       bool
	UnshareUTS       bool
	UnshareCgroup    bool
	UnshareCgroupTry bool
	// The namespaces to join, as descriptors.
	UserNS  Opt[int]
	UserNS2 Opt[int]
	PIDNS   Opt[int]
	// DisableUserns and AssertUsernsDisabled are about namespaces made by what runs inside.
	DisableUserns        bool
	AssertUsernsDisabled bool

	// UID and GID are the ids inside. The values are the caller's own where none was given.
	UID Opt[uint32]
	GID Opt[uint32]

	// Caps are the capabilities of COMMAND, bit n for capability n: the caller's, if it is root, changed by
	// --cap-add and --cap-drop in order. CapsGiven says whether there was one of these.
	Caps      uint64
	CapsGiven bool
	// Seccomp is the descriptor of the filter that --seccomp gave.
	Seccomp Opt[int]
	// Filters are the filters that can be stacked, in order.
	Filters []Filter
	// ExecLabel and FileLabel are SELinux labels.
	ExecLabel Opt[string]
	FileLabel Opt[string]

	// Switches that are called as their options are.
	NewSession           bool
	DieWithParent        bool
	AsPID1               bool
	NotASecurityBoundary bool

	// LockFiles are paths inside the sandbox, in order.
	LockFiles []string
	// Descriptors that are called as their options are.
	SyncFD        Opt[int]
	BlockFD       Opt[int]
	UsernsBlockFD Opt[int]
	InfoFD        Opt[int]
	JSONStatusFD  Opt[int]

	// LevelPrefix says whether messages begin with their severity from here on.
	LevelPrefix bool
	// ForceOpenatFallback is for tests: destinations are resolved as on a kernel without openat2.
	ForceOpenatFallback bool
	// Warnings are to be printed, in order, before anything else is.
	Warnings []Warning

	// The options of our own.

	// NetNS is a network namespace to join: a name, or a path if it has a slash.
	NetNS Opt[string]
	// UIDMap and GIDMap are ranges of ids, in addition to UID and GID.
	UIDMap []IDMap
	GIDMap []IDMap
	// Switches that are called as their options are.
	AllowLoopbackFailure bool
	CreateMountPoints    bool
	ForwardSignals       bool
	ExitCodes            bool
	KillOnExit           bool
}

// OpKind is what a SetupOp does.
type OpKind uint8

// The kinds, and what they use of a SetupOp besides Dest.
const (
	OpNone       OpKind = iota
	OpBind              // Source, Try
	OpROBind            // Source, Try
	OpDevBind           // Source, Try
	OpBindFD            // FD
	OpROBindFD          // FD
	OpRemountRO         //
	OpOverlay           // Source (the upper directory), WorkDir, Layers
	OpTmpOverlay        // Layers
	OpROOverlay         // Layers
	OpProc              //
	OpDev               //
	OpTmpfs             // Perms, Size
	OpMqueue            //
	OpDir               // Perms
	OpFile              // FD, Perms
	OpBindData          // FD, Perms
	OpROBindData        // FD, Perms
	OpSymlink           // Source (the link's text)
	OpChmod             // Perms
	OpHostname          // Dest is the name
)

// SetupOp is one step of the set-up.
type SetupOp struct {
	Kind OpKind
	// Try: do nothing if Source does not exist.
	Try bool
	// HasPerms says whether Perms was given; otherwise it is the kind's default.
	HasPerms bool
	// Perms are the permissions, for kinds that have them, and else 0.
	Perms uint32
	// FD is the descriptor, for kinds that have one, and else -1.
	FD int
	// Size limits a tmpfs; 0 stands for the kernel's default.
	Size uint64
	// Source is a path on the host, or a link's text.
	Source string
	// Dest is a path inside, as it was given.
	Dest string
	// WorkDir is the overlay's, on the host.
	WorkDir string
	// Layers are the read-only layers of an overlay on the host, topmost first:
	// the order the kernel wants, and the reverse of the command line's.
	Layers []string
	// Hide are paths that the overlay leaves out, relative to it; Submounts shows what is mounted below the layers.
	Hide      []string
	Submounts bool
}

// ParentMode returns the permissions that missing parents of Dest are made with: those of the group and of others are
// left out where Perms has none. Kinds without permissions count as 0, so that their parents are the owner's alone;
// bubblewrap's manual says 0755, but this is what it does.
func (op *SetupOp) ParentMode() uint32 {
	mode := uint32(0o755)
	if op.Perms&0o070 == 0 {
		mode &^= 0o050
	}
	if op.Perms&0o007 == 0 {
		mode &^= 0o005
	}
	return mode
}

// EnvKind is what an EnvOp does.
type EnvKind uint8

const (
	EnvSet EnvKind = iota
	EnvUnset
	EnvClear
)

// EnvOp is one change of the environment.
type EnvOp struct {
	Kind  EnvKind
	Name  string
	Value string
}

// Environment returns the environment that comes of base by the changes. Base is not written to. The order is the one
// the C library leaves: a variable that is set again keeps its place.
func (c *Config) Environment(base []string) []string {
	env := append(make([]string, 0, len(base)+len(c.Environ)+1), base...)
	env, _ = c.EnvironmentIn(env, func(name, value string) (string, bool) { return name + "=" + value, true })
	return env
}

// EnvironmentIn is Environment in place: env is written to, and must have room for what is added. join makes
// "name=value"; where it cannot, or there is no room, ok is false.
func (c *Config) EnvironmentIn(env []string, join func(name, value string) (string, bool)) (result []string, ok bool) {
	for i := range c.Environ {
		switch op := &c.Environ[i]; op.Kind {
		case EnvSet:
			kv, ok := join(op.Name, op.Value)
			if !ok {
				return nil, false
			}
			at := 0
			for at < len(env) && !isVar(env[at], op.Name) {
				at++
			}
			if at == cap(env) {
				return nil, false
			}
			if at == len(env) {
				env = env[:at+1]
			}
			env[at] = kv
		case EnvUnset:
			kept := env[:0]
			for _, e := range env {
				if !isVar(e, op.Name) {
					kept = append(kept, e)
				}
			}
			env = kept
		case EnvClear:
			env = env[:0]
		}
	}
	return env, true
}

func isVar(e, name string) bool {
	return len(e) > len(name) && e[len(name)] == '=' && hasPrefix(e, name)
}

// Filter is a seccomp program: the bytes read from a descriptor, or a file that is still to be read.
type Filter struct {
	Data []byte
	File string
}

// IDMap is a range of ids.
type IDMap struct {
	Inside, Outside, Count uint32
}

// Warning is a message that does not end the program.
type Warning struct {
	Text string
	// LevelPrefix says whether it begins with its severity.
	LevelPrefix bool
}
