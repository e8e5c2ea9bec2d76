// Package mcpargs parses the input of `nsrun mcp`: its command line, for both programs that read it (nsrun, which
// explains it, and nsrun-mcp, which nsrun executes), and the arguments of a call. It imports credential,
// internal/config, internal/escape and netpolicy, and runs nothing.
package mcpargs

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/netpolicy"
)

// Program is the name of the program that serves.
const Program = "nsrun-mcp"

// After is what becomes of what a command changed in the project.
type After uint8

// What can become of it.
const (
	Commit  After = iota // it is committed when the command has ended
	Keep                 // all commands write to one session, until somebody decides
	Discard              // it is thrown away
)

type Options struct {
	// Projects are the directories. Nil: where the program was started.
	Projects []string
	// After is of the last of --commit, --keep and --discard. Zero: Commit.
	After After
	// Paths are more paths.
	Paths []config.Rule
	// BlockExisting runs commands also where what is to be hidden could come up later.
	BlockExisting bool
	// Devices are those of this host that commands can use.
	Devices []string
	// AllowUserns lets commands make user namespaces.
	AllowUserns bool
	// OwnIDs gives root's commands ids of their own.
	OwnIDs bool
	// Home is what becomes of what commands write below the home directory: "layer" or "none". Empty: layer.
	Home string
	// Net are network rules: what commands reach without being asked.
	Net []netpolicy.Rule
	// NetBy is who enforces them, "kernel" or "broker". Empty: the kernel, where that is allowed.
	NetBy string
	// Publish are TCP ports of commands' servers that this host can reach.
	Publish []uint16
	// AllowUnix are paths of unix sockets that commands can connect to.
	AllowUnix []string
	// Credentials are secrets that requests to hosts carry.
	Credentials []credential.Rule
	// Sandbox is "required", "preferred" or "disabled". Empty: required.
	Sandbox string
	// Backend is "auto", "native" or "landlock". Empty: auto.
	Backend string
	// Build is --preset build: commands write to the caches of build tools.
	Build bool
	// ClearEnv passes nothing of the environment on but PATH and HOME.
	ClearEnv bool
	// Env is added to the environment, "K=V" or "K".
	Env []string
	// Timeout ends a command. Zero: no limit.
	Timeout time.Duration
	// AskTimeout is how long a question waits for its answer, which is no after that.
	AskTimeout time.Duration
	// MaxOutput is how much is kept of standard output, and of standard error, in bytes.
	// Zero: nsrun.DefaultMaxOutput.
	MaxOutput int
	// TextOnly omits the structured part of results.
	TextOnly bool
}

// defaultAsk is long enough for a short absence from the desk.
const defaultAsk = 5 * time.Minute

// Define adds the flags to fs; they set o. It is long because it is the table of the flags.
func Define(fs *flag.FlagSet, o *Options) {
	policy := func(to After) func(string) error {
		return func(string) error { o.After = to; return nil }
	}
	path := func(kind string) func(string) error {
		return func(s string) error {
			if s == "" {
				return errors.New("empty path")
			}
			o.Paths = append(o.Paths, config.Rule{Kind: kind, Pattern: s})
			return nil
		}
	}
	list := func(to *[]string, what string) func(string) error {
		return func(s string) error {
			if s == "" {
				return errors.New("empty " + what)
			}
			*to = append(*to, s)
			return nil
		}
	}
	fs.Func("project", "project root `directory` (repeatable; commands begin in the first; default: the git work tree, else the current directory)", list(&o.Projects, "path"))
	fs.BoolFunc("commit", "commit a command's changes when it ends, whatever its exit status (the default); nsrun undo takes them back", policy(Commit))
	fs.BoolFunc("keep", "keep the changes of all commands in one session, until nsrun commit or nsrun discard", policy(Keep))
	fs.BoolFunc("discard", "discard a command's changes", policy(Discard))
	fs.Func("rw", "make a `path` writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)", path("rw"))
	fs.Func("ro", "make a `path` read-only", path("ro"))
	fs.Func("protect", "hold back changes to a `path`, in the project, until the user commits it by name (repeatable, takes patterns)", path("protect"))
	fs.Func("block", "hide a `path`, even if it is created while a command runs; !path is an exception", path("block"))
	fs.Func("device", "let commands use a device of this host: `nvidia|dri|kvm|PATH` (repeatable)", list(&o.Devices, "device"))
	fs.BoolVar(&o.AllowUserns, "allow-userns", false, "let commands make user namespaces, as programs with a sandbox of their own do; not for root")
	fs.BoolVar(&o.OwnIDs, "own-ids", false, "for root: give commands ids of their own, and the rights of root to what they may write")
	fs.BoolVar(&o.BlockExisting, "block-existing", false, "run commands even if --block can only hide what exists when they start")
	fs.Func("home", "what happens to writes below the home directory, `layer|none`: they go to a layer that the project's next commands see, or are refused (default: layer)", func(s string) error {
		if o.Home = s; s != "layer" && s != "none" {
			return errors.New("the values are layer and none")
		}
		return nil
	})
	fs.Func("allow-net", "allow connections that match `RULE`, without a question, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)", func(s string) error {
		r, err := netpolicy.Parse(s)
		if err == nil {
			o.Net = append(o.Net, r)
		}
		return err
	})
	fs.Func("net-by", "enforce rules with `kernel|broker` (default: the kernel, if permitted)", func(s string) error {
		if o.NetBy = s; s != "kernel" && s != "broker" {
			return errors.New("the values are kernel and broker")
		}
		return nil
	})
	fs.Func("publish", "make a command's server on TCP `port` reachable at 127.0.0.1 of this host (repeatable)", func(s string) error { return AddPort(&o.Publish, s) })
	fs.Func("allow-unix", "allow connections to the Unix socket at `path`, or to a service: ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)", list(&o.AllowUnix, "path"))
	fs.Func("credential", "add a secret to requests to a host, without showing it to commands: `HOST=SECRET`, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; commands send their requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)", func(s string) error {
		r, err := credential.Parse(s)
		if e, ok := errors.AsType[*credential.Error](err); ok {
			return e.Err
		}
		o.Credentials = append(o.Credentials, r)
		return nil
	})
	fs.Func("preset", "use a preset, `default|build`: with build, commands write to the caches of build tools", func(s string) error {
		if o.Build = s == "build"; !o.Build && s != "default" {
			return errors.New("the values are default and build")
		}
		return nil
	})
	fs.Func("sandbox", "the sandbox is `required|preferred|disabled`: preferred runs commands without a sandbox if this host allows none, disabled always does (default: required)", func(s string) error {
		if o.Sandbox = s; s != "required" && s != "preferred" && s != "disabled" {
			return errors.New("the values are required, preferred and disabled")
		}
		return nil
	})
	fs.Func("backend", "make the sandbox with `auto|native|landlock`: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)", func(s string) error {
		if o.Backend = s; s != "auto" && s != "native" && s != "landlock" {
			return errors.New("the values are auto, native and landlock")
		}
		return nil
	})
	fs.BoolVar(&o.ClearEnv, "clear-env", false, "pass only PATH and HOME from the environment")
	fs.Func("env", "set `K=V`, or pass K through (repeatable)", list(&o.Env, "variable"))
	fs.DurationVar(&o.Timeout, "timeout", 0, "end commands after this `duration` (default: when the client cancels them)")
	fs.DurationVar(&o.AskTimeout, "ask-timeout", defaultAsk, "wait this `duration` for the user's answer to a question; no answer is a no (default 5m)")
	fs.Func("max-output", "keep at most `SIZE` of standard output, and of standard error, such as 64K or 1M (default 64K)", func(s string) (err error) {
		o.MaxOutput, err = Size(s)
		return err
	})
	fs.BoolVar(&o.TextOnly, "text-only", false, "return results as text only, for clients that show models the structured half if there is one")
}

// Parse reads the words behind `nsrun mcp`. The error is flag.ErrHelp where help was asked for.
func Parse(args []string) (*Options, error) {
	o := &Options{}
	fs := flag.NewFlagSet("mcp", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	Define(fs, o)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, errors.New("takes no arguments: the agent's program sends the commands")
	case o.Timeout < 0:
		return nil, errors.New("--timeout is negative")
	case o.AskTimeout <= 0:
		return nil, errors.New("--ask-timeout must be above zero")
	}
	return o, nil
}

// maxSize is more than anybody reads, and fits in memory.
const maxSize = 1 << 30

// Size is a number of bytes: "100", "64K", "1M".
func Size(s string) (int, error) {
	number, unit := s, 1
	for i, suffix := range [...]string{"K", "M", "G"} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			number, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n == 0 || n > uint64(maxSize/unit) {
		return 0, errors.New("not a size like 64K or 1M, of at most 1G")
	}
	return int(n) * unit, nil
}

// AddPort adds the port that a text is to a list, once.
func AddPort(list *[]uint16, text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return errors.New("a port is a number from 1 to 65535")
	}
	if !slices.Contains(*list, uint16(n)) {
		*list = append(*list, uint16(n))
	}
	return nil
}
