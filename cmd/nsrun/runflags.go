//go:build linux

package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/mcpargs"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
)

type runOptions struct {
	dir                        string
	projects                   []string
	session, on                string
	shell                      string
	shellSet                   bool
	engine                     overlay.Engine
	presets                    []nsrunlib.Preset
	sandbox                    nsrunlib.SandboxMode
	backend                    nsrunlib.Backend
	direct                     bool
	commit, discard, keep      bool
	allowExec                  bool
	allowSpecial               bool
	paths                      []config.Rule // in the order given
	blockExisting              bool
	locked                     func(key string) bool // whether a key of files is; nil: there are no files
	lockedPaths                bool                  // blocked_paths of files is locked, and no flag adds to them
	home                       nsrunlib.HomeMode
	caches                     []string
	homeSize                   int64
	net                        string
	allowNet                   []netpolicy.Rule
	learnNet                   bool
	enforcer                   nsrunlib.Enforcer
	publish                    []uint16
	allowUnix                  []string
	allowUserns, ownIDs        bool
	devices                    []string
	place                      func(key, text string) string // see config.Policy; nil: no file was read
	credentials                []credential.Rule
	env                        []string
	clearEnv                   bool
	given                      []string // names of the flags that are given
	timeout                    time.Duration
	limits                     nsrunlib.Limits
	grace                      time.Duration
	report                     string
	explain, quiet, watch, why bool
	explainPolicy              bool
	command                    []string
}

var ruleModes = [...]struct {
	kind string
	mode nsrunlib.Mode
}{{"rw", nsrunlib.Direct}, {"ro", nsrunlib.ReadOnly}, {"protect", nsrunlib.Protected}, {"block", nsrunlib.Blocked}}

type ruleFlag struct {
	kind  string
	rules *[]config.Rule
}

func (f ruleFlag) String() string { return "" }

func (f ruleFlag) Set(s string) error {
	if s == "" {
		return errors.New("empty path")
	}
	*f.rules = append(*f.rules, config.Rule{Kind: f.kind, Pattern: s})
	return nil
}

// explainFlag is --explain, which can have a value.
type explainFlag struct{ o *runOptions }

func (f explainFlag) IsBoolFlag() bool { return true }

func (f explainFlag) String() string { return "" }

func (f explainFlag) Set(s string) error {
	if s == "policy" {
		f.o.explain, f.o.explainPolicy = false, true
		return nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("the value can only be policy")
	}
	f.o.explain, f.o.explainPolicy = v, false
	return nil
}

func runFlags(fs *flag.FlagSet, o *runOptions) {
	fs.StringVar(&o.dir, "C", "", "working `directory`")
	fs.StringVar(&o.dir, "dir", "", "working `directory`")
	fs.Var((*listFlag)(&o.projects), "project", "project root `directory` (repeatable; default: the git work tree, else the current directory)")
	fs.Func("session", "continue a kept `SESSION`, in its roots; the working directory is the first of them", sessionValue(&o.session))
	fs.Func("on", "start a new session on top of `SESSION`; the command sees the changes of both", sessionValue(&o.on))
	fs.Func("c", "run a shell `string` with /bin/sh -c", func(s string) error { o.shell, o.shellSet = s, true; return nil })
	fs.Func("sandbox", "the sandbox is `required|preferred|disabled`: preferred runs the command without a sandbox if this host allows none, disabled always does (default: required)", o.setSandbox)
	fs.Func("backend", "make the sandbox with `auto|native|landlock`: native uses namespaces, landlock does not (default: auto, which uses landlock only where this machine allows no namespaces)", o.setBackend)
	fs.BoolVar(&o.direct, "direct", false, "write directly to the project, without an overlay; .git is read-only, except with --preset git")
	fs.BoolVar(&o.commit, "commit", false, "commit the changes if the command succeeds")
	allowExecFlag(fs, &o.allowExec)
	allowSpecialFlag(fs, &o.allowSpecial)
	fs.BoolVar(&o.discard, "discard", false, "discard the changes afterwards")
	fs.BoolVar(&o.keep, "keep", false, "keep the changes as a session, without asking")
	fs.Func("engine", "keep changes apart with `overlay|tmpfs|copy` (default: chosen by the file system)", o.setEngine)
	fs.Func("preset", "use a preset, or several separated by commas: `default|build|test|git|strict|workspace-root|browser|npm|pypi|go|cargo|debian|github` (repeatable; nsrun help presets explains them)", o.addPresets)
	fs.Var(ruleFlag{"rw", &o.paths}, "rw", "make `path` writable, without an overlay (--rw, --ro and --block are repeatable and take patterns; the last match wins)")
	fs.Var(ruleFlag{"ro", &o.paths}, "ro", "make `path` read-only")
	fs.Var(ruleFlag{"protect", &o.paths}, "protect", "hold back changes to `path`, in the project, until it is committed by name; with --direct it is read-only (repeatable, takes patterns)")
	fs.Var(ruleFlag{"block", &o.paths}, "block", "hide `path`, even if it is created while the command runs; !path is an exception")
	fs.BoolVar(&o.blockExisting, "block-existing", false, "run the command even if --block can only hide what exists when it starts")
	o.home = nsrunlib.HomeLayer
	fs.Func("home", "what happens to writes below the home directory, `layer|none`: they go to a layer that the project's next commands see, or are refused (default: layer)", o.setHome)
	fs.Var((*listFlag)(&o.caches), "cache", "treat a `directory` below the home directory as a cache: the command can write to it, and nsrun may remove its contents (repeatable)")
	fs.Func("home-size", "keep at most `SIZE` in that layer after the command: if it is larger, remove caches in it, the largest first, then all of it (default: 10G)", o.setHomeSize)
	fs.StringVar(&o.net, "net", "none", "use the network `none|host`; host is this host's own network, and needs approval every time")
	fs.Func("allow-net", "allow connections that match `RULE`, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)", o.addRule)
	fs.BoolVar(&o.learnNet, "learn-net", false, "after approval, allow all connections (with the broker, all except to this host's 127.0.0.1), and print the rules that would be enough")
	fs.Func("net-by", "enforce rules with `kernel|broker` (default: the kernel, if permitted)", o.setEnforcer)
	fs.Func("publish", "make the command's server on TCP `port` reachable at 127.0.0.1 of this host (repeatable)", func(s string) error { return mcpargs.AddPort(&o.publish, s) })
	fs.Var((*listFlag)(&o.allowUnix), "allow-unix", "allow connections to the Unix socket at `path`, or to a service: @ (with --net host, all abstract sockets); ssh-agent[:KEY], gpg-agent:KEY (signatures with a key, each after a question); dbus:NAME (a program on the session bus), docker and x11, each after a question; wayland (repeatable)")
	fs.BoolVar(&o.allowUserns, "allow-userns", false, "let the command make user namespaces, as programs with a sandbox of their own do; not for root")
	fs.BoolVar(&o.ownIDs, "own-ids", false, "for root: give the command ids of its own, and the rights of root to what it may write: owners (chown), other users, permissions")
	fs.Var((*listFlag)(&o.devices), "device", "let the command use a device of this host: `nvidia|dri|kvm|PATH` (repeatable)")
	fs.Func("credential", "add a secret to requests to a host, without showing it to the command: `HOST=SECRET`, where SECRET is env:NAME or file:PATH, with options after commas; or git:HOST, for git, after a question; the command sends its requests to $NSRUN_CREDENTIAL_HOST_URL (repeatable)", o.addCredential)
	fs.Func("env", "set `K=V`, or pass K through (repeatable)", o.addEnv)
	fs.BoolVar(&o.clearEnv, "clear-env", false, "pass only PATH and HOME from the environment")
	fs.DurationVar(&o.timeout, "timeout", 0, "end the command after this `duration`")
	fs.DurationVar(&o.grace, "grace", 0, "after --timeout, kill the command this `duration` after SIGTERM (default 2s)")
	limitFlags(fs, &o.limits)
	fs.Func("report", "write a JSON report to a `file`, a descriptor number, or - for standard output", func(s string) error {
		if o.report = s; s == "" {
			return errEmpty
		}
		return nil
	})
	fs.Var(explainFlag{o}, "explain", "print what would be done, and do nothing; --explain=policy prints what nsrun policy does")
	fs.BoolVar(&o.watch, "watch", false, "print what the command changes as it happens")
	fs.BoolVar(&o.why, "why", false, "find out what the command was refused, and which flag would allow it; this takes longer")
	fs.BoolVar(&o.quiet, "q", false, "do not print what changed or was denied")
}

// parseRun reads the words behind `nsrun run`, or another verb that takes its flags, and more.
func parseRun(v *usage.Verb, args []string, o *runOptions, more func(*flag.FlagSet)) error {
	verb := v.Name
	fs := flag.NewFlagSet(verb, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	runFlags(fs, o)
	if more != nil {
		more(fs)
	}
	var err error
	if verb == whyVerb.Name {
		o.command, err = usage.Words(fs, args)
	} else if err = usage.Flags(fs, args); err == nil { // the flags of a command follow it
		o.command = fs.Args()
	}
	if err != nil {
		return v.Wrong(fs, err)
	}
	if o.shellSet {
		o.command = append([]string{"/bin/sh", "-c", o.shell}, o.command...)
	}
	fs.Visit(func(f *flag.Flag) { o.given = append(o.given, f.Name) })
	n := 0
	for _, b := range [...]bool{o.commit, o.discard, o.keep} {
		if b {
			n++
		}
	}
	switch {
	case len(o.command) == 0 && verb == "run":
		return usage.Errorf(verb, "no command")
	case n > 1:
		return usage.Errorf(verb, "--commit, --discard and --keep exclude each other")
	case o.direct && n > 0:
		return usage.Errorf(verb, "--direct leaves no changes to commit, discard or keep")
	case o.session != "" && len(o.projects) > 0:
		return usage.Errorf(verb, "--session and --project exclude each other: a session has its own roots")
	case o.session != "" && o.direct, o.session != "" && o.on != "", o.on != "" && o.direct:
		return usage.Errorf(verb, "--session, --on and --direct exclude each other")
	case o.session != "" && o.discard:
		return usage.Errorf(verb, "--discard would throw away earlier changes of the session: use nsrun discard")
	case o.has(nsrunlib.TestPreset) && (o.commit || o.keep || o.session != ""):
		return usage.Errorf(verb, "--preset test discards the changes")
	case o.engine != 0 && (o.session != "" || o.direct):
		return usage.Errorf(verb, "--engine is for a new session")
	case o.net != "none" && o.net != "host":
		return usage.Errorf(verb, "--net %s: the values are none and host%s", escape.Quote(o.net), netMeant(o.net))
	case o.isGiven("net") && o.byRules():
		return usage.Errorf(verb, "--net %s takes no rules: use it without --allow-net, --learn-net and --publish", o.net)
	case o.net != "host" && slices.Contains(o.allowUnix, nsrunlib.AbstractSockets):
		return usage.Errorf(verb, "--allow-unix @ needs --net host")
	case slices.ContainsFunc(o.allowUnix, isAbstractSocket):
		name := o.allowUnix[slices.IndexFunc(o.allowUnix, isAbstractSocket)]
		return usage.Errorf(verb, "--allow-unix %s: one abstract socket cannot be allowed alone; --net host --allow-unix @ allows all, and %s is a file", escape.Quote(name), escape.Quote("./"+name))
	case o.timeout < 0:
		return usage.Errorf(verb, "--timeout is negative")
	case o.grace < 0:
		return usage.Errorf(verb, "--grace is negative")
	}
	o.discard = o.discard || o.has(nsrunlib.TestPreset) && !o.direct
	for _, named := range [...]*string{&o.session, &o.on} {
		switch id, err := sessionNamed(*named); {
		case err == nil:
			*named = id
		case !errors.Is(err, errNoneHere): // else the newest of all: it has roots of its own
			return err
		}
	}
	return nil
}

// isGiven reports whether a flag is given.
func (o *runOptions) isGiven(name string) bool { return slices.Contains(o.given, name) }

// checkAll finds mistakes in flags that need other settings, which may be those of files, and in limits.
func (o *runOptions) checkAll() error {
	switch {
	case o.timeout == 0 && o.isGiven("grace"):
		return usage.Errorf("run", "--grace needs --timeout")
	case o.enforcer != nsrunlib.AutoEnforcer && !o.byRules():
		return usage.Errorf("run", "--net-by needs --allow-net, --learn-net or --publish")
	}
	if o.limits != (nsrunlib.Limits{}) {
		if err := o.limits.Check(); err != nil {
			return usage.Errorf("run", "%s", err)
		}
	}
	return nil
}

// addEnv is --env. A name that begins like a flag means that the value is missing.
func (o *runOptions) addEnv(text string) error {
	if name, _, _ := strings.Cut(text, "="); name == "" || name[0] == '-' {
		return errors.New("not the name of a variable")
	}
	o.env = append(o.env, text)
	return nil
}

// addRule is --allow-net.
func (o *runOptions) addRule(text string) error {
	r, err := netpolicy.Parse(text)
	if err == nil {
		o.allowNet = append(o.allowNet, r)
	}
	return err
}

func (o *runOptions) addCredential(text string) error {
	r, err := credential.Parse(text)
	if e, ok := errors.AsType[*credential.Error](err); ok {
		return e.Err
	}
	o.credentials = append(o.credentials, r)
	return nil
}

// byRules reports whether there are network rules.
func (o *runOptions) byRules() bool {
	return len(o.allowNet) > 0 || o.learnNet || len(o.publish) > 0 ||
		slices.ContainsFunc(o.presets, func(p nsrunlib.Preset) bool { return len(p.Rules()) > 0 })
}

func (o *runOptions) setEnforcer(name string) error {
	for _, e := range [...]nsrunlib.Enforcer{nsrunlib.KernelEnforcer, nsrunlib.BrokerEnforcer} {
		if e.String() == name {
			o.enforcer = e
			return nil
		}
	}
	return errors.New("the values are kernel and broker")
}

func (o *runOptions) addPresets(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		p, err := nsrunlib.ParsePreset(name)
		if err != nil {
			return err
		}
		o.presets = append(o.presets, p)
	}
	return nil
}

// has reports whether a preset was given.
func (o *runOptions) has(p nsrunlib.Preset) bool { return slices.Contains(o.presets, p) }

func (o *runOptions) setBackend(name string) (err error) {
	o.backend, err = nsrunlib.ParseBackend(name)
	return err
}

func (o *runOptions) setSandbox(name string) (err error) {
	o.sandbox, err = nsrunlib.ParseSandboxMode(name)
	return err
}

func (o *runOptions) setEngine(name string) error {
	if name == "" || o.engine.UnmarshalText([]byte(name)) != nil {
		return errors.New("the values are overlay, tmpfs and copy")
	}
	return nil
}

func (o *runOptions) setHome(name string) (err error) {
	o.home, err = nsrunlib.ParseHome(name)
	return err
}

func (o *runOptions) setHomeSize(text string) (err error) {
	if o.homeSize, err = nsrunlib.ParseSize(text); err == nil && o.homeSize == 0 {
		err = errors.New("the size must not be zero")
	}
	return err
}

// after is what happens to changes.
func (o *runOptions) after() string {
	switch {
	case o.commit:
		return "commit"
	case o.discard:
		return "discard"
	case o.keep:
		return "keep"
	}
	return "ask"
}

// netMeant names the flag that was meant by a wrong value of --net: a preset or a rule.
func netMeant(value string) string {
	if p, err := nsrunlib.ParsePreset(value); err == nil && len(p.Rules()) > 0 {
		return "; the preset is --preset " + value
	}
	if _, err := netpolicy.Parse(value); err == nil && strings.Contains(value, ".") {
		return "; a rule is --allow-net " + escape.Quote(value)
	}
	return ""
}

// isAbstractSocket reports whether a value of --allow-unix is the name of one abstract socket.
func isAbstractSocket(name string) bool {
	return strings.HasPrefix(name, nsrunlib.AbstractSockets) && name != nsrunlib.AbstractSockets
}
