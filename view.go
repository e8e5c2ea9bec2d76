package nsrun

import "time"

// View is what a command sees and may do, as people think of it. It is made of the same plan
// that the command would be started with. Nil lists are empty.
type View struct {
	// Sandbox is "required", "preferred" or "disabled": then nothing of what follows holds.
	Sandbox string `json:"sandbox"`
	// Command is what would be run, and Dir where.
	Command []string `json:"command"`
	Dir     string   `json:"dir"`
	// Presets are the names of those that hold.
	Presets []string `json:"presets"`
	// Apart are the folders that can be written to, and what is written is kept apart.
	Apart []string `json:"apart"`
	// Home is the home directory, where what is written to it is kept in a layer of the project (Config.Home). Empty: it is not.
	Home string `json:"home"`
	// Writable are other paths of the host that can be written to, at once.
	Writable []string `json:"writable"`
	// Private are directories that are empty at the start, and gone at the end; what is
	// listed besides is in some of them.
	Private []string `json:"private"`
	// ReadOnly are paths of the host that can be read: "/" is all that is not listed.
	ReadOnly []string `json:"read_only"`
	// Hidden are paths that cannot be looked at, now or when something comes up there, HiddenSockets those among them that are
	// sockets of the host.
	Hidden        []string `json:"hidden"`
	HiddenSockets []string `json:"hidden_sockets"`
	// Network is "none", "host", "rules" or "all" (LearnNet); with rules there are Rules, and
	// Publish are the ports that the host can reach.
	Network string   `json:"network"`
	Rules   []string `json:"rules"`
	Publish []uint16 `json:"publish"`
	// Sockets are those of the host that can be connected to.
	Sockets []string `json:"sockets"`
	// UserNamespaces says that it can make user namespaces.
	UserNamespaces bool `json:"user_namespaces"`
	// Devices are those of the host that can be used.
	Devices []string `json:"devices"`
	// Credentials are the hosts whose credentials it can use, and does not have.
	Credentials []string `json:"credentials"`
	// Removed are the names of variables of this program that the command does not have, and
	// Set those that it has, and this program has not, or with other values.
	Removed []string `json:"environment_removed"`
	Set     []string `json:"environment_set"`
	// Timeout is when the command is ended. Zero: never.
	Timeout time.Duration `json:"-"`
	// Notices say what is not as it usually is.
	Notices []Notice `json:"notices"`
}

// A Finding says what the policy of a command makes of one thing that it could ask for.
type Finding struct {
	// Target is what was asked about, and Kind "path", "socket" or "host".
	Target string `json:"target"`
	Kind   string `json:"kind"`
	// Path is where a path or socket leads, without symbolic links. Empty with "host".
	Path string `json:"path"`
	// Exists says that the host has something at Path.
	Exists bool `json:"exists"`
	// Read says that what the host has at Path is seen; Write what becomes of writes to it: "no", "apart" (they are kept
	// apart in a session), "in place", "temporary" (they are gone with the sandbox), "home layer" (they are kept for the
	// project's next commands).
	Read  bool   `json:"read"`
	Write string `json:"write"`
	// Connect says that the command can connect to it. It is false for paths that are not sockets.
	Connect bool `json:"connect"`
	// Rule is what decided, as in Refusal, "allowed" for a rule of the network, or empty: nothing is refused. Text is the
	// same for people.
	Rule string `json:"rule"`
	Text string `json:"text"`
	// Denied are the ways to use it that are refused. Nil: none.
	Denied []Refusal `json:"denied"`
}
