package nsrun

import "time"

// View is what a command sees and may do, in terms for people. It is made from the same plan with which the command
// would be started. Nil lists are empty.
type View struct {
	// Sandbox is "required", "preferred" or "disabled". With "disabled", nothing of the following holds.
	Sandbox string `json:"sandbox"`
	// Command is what would be run, and Dir where.
	Command []string `json:"command"`
	Dir     string   `json:"dir"`
	// Presets are the names of the presets that apply.
	Presets []string `json:"presets"`
	// Apart are the folders in which writes are kept apart.
	Apart []string `json:"apart"`
	// Home is the home directory, if writes to it go to a layer of the project (Config.Home). Empty: they do not.
	Home string `json:"home"`
	// OtherHome is the same for the home directory in /etc/passwd, if $HOME is another one.
	OtherHome string `json:"other_home"`
	// Writable are other paths of the host, where writes take effect at once.
	Writable []string `json:"writable"`
	// Private are directories that are empty at the start, and gone at the end; other listed paths can lie in them.
	Private []string `json:"private"`
	// ReadOnly are paths of the host that can be read; "/" means everything that is not listed elsewhere.
	ReadOnly []string `json:"read_only"`
	// Hidden are hidden paths, even if something appears there later. HiddenSockets are those that are sockets of
	// the host.
	Hidden        []string `json:"hidden"`
	HiddenSockets []string `json:"hidden_sockets"`
	// Network is "none", "host", "rules" or "all" (LearnNet). With "rules", Rules has them. Publish are the ports
	// that the host can reach.
	Network string   `json:"network"`
	Rules   []string `json:"rules"`
	Publish []uint16 `json:"publish"`
	// Sockets are those of the host that can be connected to.
	Sockets []string `json:"sockets"`
	// UserNamespaces says that it can make user namespaces.
	UserNamespaces bool `json:"user_namespaces"`
	// OwnIDs says that it has ids of its own, and root's rights to what it may use.
	OwnIDs bool `json:"own_ids"`
	// Owners says that root's command can change owners in the session, without OwnIDs.
	Owners bool `json:"owners"`
	// Devices are those of the host that can be used.
	Devices []string `json:"devices"`
	// Credentials are the hosts whose credentials it can use but not read.
	Credentials []string `json:"credentials"`
	// Removed are the names of this program's variables that the command does not have. Set are those that only the
	// command has, or that have another value there.
	Removed []string `json:"environment_removed"`
	Set     []string `json:"environment_set"`
	// Timeout is when the command is ended. Zero: never.
	Timeout time.Duration `json:"-"`
	// Notices report unusual conditions.
	Notices []Notice `json:"notices"`
}

// A Finding says what the policy of a command allows for one path, socket or host.
type Finding struct {
	// Target is what was asked about, and Kind is "path", "socket" or "host".
	Target string `json:"target"`
	Kind   string `json:"kind"`
	// Path is where a path or socket leads, without symbolic links. Empty with "host".
	Path string `json:"path"`
	// Exists says that the host has something at Path.
	Exists bool `json:"exists"`
	// Read says that the command can read what the host has at Path. Write says what happens to writes: "no", "apart"
	// (they are kept apart in a session), "in place", "temporary" (they are gone with the sandbox), "home layer"
	// (they are kept for the project's next commands).
	Read  bool   `json:"read"`
	Write string `json:"write"`
	// Connect says that the command can connect to it. It is false for paths that are not sockets.
	Connect bool `json:"connect"`
	// Rule is what decided: a word as in Refusal, or "allowed" for a rule of the network. Empty: nothing is
	// refused. Text says the same for people.
	Rule string `json:"rule"`
	Text string `json:"text"`
	// Denied are the ways to use it that are refused. Nil: none.
	Denied []Refusal `json:"denied"`
}
