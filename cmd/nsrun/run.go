//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/escape"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/review"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var runVerb = usage.Verb{
	Name: "run", Args: "[flags] [--] COMMAND [ARG…]",
	Short: "run a command in a sandbox over the project",
	Long: `The command sees the host's files, read-only, without secrets; the project
is writable behind an overlay; /tmp, /dev and /proc are private; there is no
network. What it changed is kept as a session until it is committed or
discarded. The exit status is the command's, or 124 (timed out), 125 (nsrun
failed), 126 (cannot execute), 127 (not found), 128+n (signal n).`,
	Flags: func(fs *flag.FlagSet) { runFlags(fs, &runOptions{}) },
}

// runOptions are the flags of `nsrun run`.
type runOptions struct {
	dir                   string
	projects              []string
	session, on           string
	shell                 string
	shellSet              bool
	engine                overlay.Engine
	preset                nsrunlib.Preset
	direct                bool
	commit, discard, keep bool
	allowExec             bool
	allowSpecial          bool
	paths                 []pathRule
	net                   string
	allowNet              []netpolicy.Rule
	learnNet              bool
	enforcer              nsrunlib.Enforcer
	publish               []uint16
	allowUnix             []string
	env                   []string
	clearEnv              bool
	timeout               time.Duration
	report                string
	explain, quiet, watch bool
	explainPolicy         bool
	command               []string
}

// pathRule is one --rw, --ro or --block, in the order given.
type pathRule struct{ kind, pattern string }

// ruleModes are what the kinds mean.
var ruleModes = [...]struct {
	kind string
	mode nsrunlib.Mode
}{{"rw", nsrunlib.Direct}, {"ro", nsrunlib.ReadOnly}, {"block", nsrunlib.Blocked}}

// ruleFlag collects path rules of one kind.
type ruleFlag struct {
	kind  string
	rules *[]pathRule
}

func (f ruleFlag) String() string { return "" }
func (f ruleFlag) Set(s string) error {
	if s == "" {
		return errors.New("empty path")
	}
	*f.rules = append(*f.rules, pathRule{f.kind, s})
	return nil
}

// explainFlag is --explain, which can have a value.
type explainFlag struct{ o *runOptions }

func (f explainFlag) IsBoolFlag() bool { return true }
func (f explainFlag) String() string   { return "" }
func (f explainFlag) Set(s string) error {
	if s == "policy" {
		f.o.explain, f.o.explainPolicy = false, true
		return nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("only policy")
	}
	f.o.explain, f.o.explainPolicy = v, false
	return nil
}

func runFlags(fs *flag.FlagSet, o *runOptions) {
	fs.StringVar(&o.dir, "C", "", "working `directory`")
	fs.StringVar(&o.dir, "dir", "", "working `directory`")
	fs.Var((*listFlag)(&o.projects), "project", "project root `directory` (repeatable; default: the git work tree, else the current directory)")
	fs.Func("session", "add to a `SESSION` that was kept; its roots are the project, the first one is the working directory", sessionValue(&o.session))
	fs.Func("on", "begin a session on top of another `SESSION`, whose changes the command sees", sessionValue(&o.on))
	fs.Func("c", "run a shell `string` with /bin/sh -c", func(s string) error { o.shell, o.shellSet = s, true; return nil })
	fs.BoolVar(&o.direct, "direct", false, "write straight into the project, no overlay; .git is read-only (with --preset git it is not)")
	fs.BoolVar(&o.commit, "commit", false, "commit the changes afterwards, if the command succeeds")
	allowExecFlag(fs, &o.allowExec)
	allowSpecialFlag(fs, &o.allowSpecial)
	fs.BoolVar(&o.discard, "discard", false, "discard the changes afterwards")
	fs.BoolVar(&o.keep, "keep", false, "keep the changes as a session, without asking")
	fs.Func("engine", "keep the changes apart by `overlay|tmpfs|copy` (default: what suits the file systems)", o.setEngine)
	fs.Func("preset", "for commands of a kind: `default|build|test|git`; build writes to caches, test discards, git with --direct to all of .git", o.setPreset)
	fs.Var(ruleFlag{"rw", &o.paths}, "rw", "make a `path` writable, without overlay (--rw, --ro, --block: repeatable, globs; later ones win)")
	fs.Var(ruleFlag{"ro", &o.paths}, "ro", "make a `path` read-only")
	fs.Var(ruleFlag{"block", &o.paths}, "block", "hide a `path`")
	fs.StringVar(&o.net, "net", "none", "network: `none|host`; host is the host's own, and has to be approved every time")
	fs.Func("allow-net", "let the command reach what a `RULE` says, [tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]] (repeatable)", o.addRule)
	fs.BoolVar(&o.learnNet, "learn-net", false, "let the command reach everything (by the broker, not this host's own 127.0.0.1), which has to be approved, and print the rules that would do")
	fs.Func("net-by", "enforce these rules by `kernel|broker` (default: the kernel, where that is allowed)", o.setEnforcer)
	fs.Func("publish", "let this host reach a server of the command's on a TCP `port`, at 127.0.0.1 (repeatable)", o.addPort)
	fs.Var((*listFlag)(&o.allowUnix), "allow-unix", "let the command connect to the unix socket at a `path`, or with --net host to all abstract ones: @ (repeatable)")
	fs.Func("env", "set `K=V`, or pass K on (repeatable)", o.addEnv)
	fs.BoolVar(&o.clearEnv, "clear-env", false, "pass nothing of the environment but PATH and HOME")
	fs.DurationVar(&o.timeout, "timeout", 0, "end the command after this `duration`")
	fs.StringVar(&o.report, "report", "", "write a JSON report to a `file`, a descriptor number, or - for standard output")
	fs.Var(explainFlag{o}, "explain", "print what would be done, do nothing; --explain=policy: as nsrun policy does")
	fs.BoolVar(&o.watch, "watch", false, "say what the command changes while it does")
	fs.BoolVar(&o.quiet, "q", false, "do not say what changed, nor what was denied")
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
	if err := fs.Parse(args); err != nil {
		return v.Wrong(fs, err)
	}
	o.command = fs.Args()
	if o.shellSet {
		o.command = append([]string{"/bin/sh", "-c", o.shell}, o.command...)
	}
	netSet := false
	fs.Visit(func(f *flag.Flag) { netSet = netSet || f.Name == "net" })
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
		return usage.Errorf(verb, "--direct leaves nothing to commit, discard or keep")
	case o.session != "" && len(o.projects) > 0:
		return usage.Errorf(verb, "--session has roots of its own: no --project with it")
	case o.session != "" && o.direct, o.session != "" && o.on != "", o.on != "" && o.direct:
		return usage.Errorf(verb, "--session, --on and --direct exclude each other")
	case o.session != "" && o.discard:
		return usage.Errorf(verb, "--discard would throw away what the session held before: use nsrun discard")
	case o.preset == nsrunlib.TestPreset && (o.commit || o.keep || o.session != ""):
		return usage.Errorf(verb, "--preset test discards the changes")
	case o.engine != 0 && (o.session != "" || o.direct):
		return usage.Errorf(verb, "--engine is for a new session")
	case o.net != "none" && o.net != "host":
		return usage.Errorf(verb, "--net %s: only none and host", escape.Quote(o.net))
	case netSet && o.byRules():
		return usage.Errorf(verb, "--net %s has no rules: no --allow-net, --learn-net or --publish with it", o.net)
	case o.net != "host" && slices.Contains(o.allowUnix, nsrunlib.AbstractSockets):
		return usage.Errorf(verb, "--allow-unix @ is about the network of --net host")
	case o.enforcer != nsrunlib.AutoEnforcer && !o.byRules():
		return usage.Errorf(verb, "--net-by enforces rules: --allow-net, --learn-net or --publish")
	case o.timeout < 0:
		return usage.Errorf(verb, "--timeout is negative")
	}
	o.discard = o.discard || o.preset == nsrunlib.TestPreset && !o.direct
	return nil
}

// addEnv is --env. A name that begins like a flag is one that lacks its value.
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

// addPort is --publish.
func (o *runOptions) addPort(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return errors.New("a port is a number from 1 to 65535")
	}
	if !slices.Contains(o.publish, uint16(n)) {
		o.publish = append(o.publish, uint16(n))
	}
	return nil
}

// byRules reports whether there is a network by rules.
func (o *runOptions) byRules() bool { return len(o.allowNet) > 0 || o.learnNet || len(o.publish) > 0 }

// setEnforcer is --net-by.
func (o *runOptions) setEnforcer(name string) error {
	for _, e := range [...]nsrunlib.Enforcer{nsrunlib.KernelEnforcer, nsrunlib.BrokerEnforcer} {
		if e.String() == name {
			o.enforcer = e
			return nil
		}
	}
	return errors.New("only kernel and broker")
}

// setPreset is --preset.
func (o *runOptions) setPreset(name string) error {
	for i, preset := range [...]string{nsrunlib.DefaultPreset: "default", nsrunlib.BuildPreset: "build", nsrunlib.TestPreset: "test", nsrunlib.GitPreset: "git"} {
		if preset == name {
			o.preset = nsrunlib.Preset(i)
			return nil
		}
	}
	return errors.New("only default, build, test and git")
}

func run(args []string) int {
	o := &runOptions{}
	if err := parseRun(&runVerb, args, o, nil); err != nil {
		return runVerb.Fail(err)
	}
	r := &runner{o: o, state: overlay.Discarded.String(), registry: project.Open(project.Options{})}
	if o.session != "" {
		r.state = overlay.Kept.String()
	}
	defer r.close()
	if o.explainPolicy {
		return r.policy(false, false)
	}
	if o.explain {
		c, q, err := r.request()
		if err == nil {
			err = nsrunlib.NewRunner(c).Explain(context.Background(), os.Stdout, q)
		}
		if err != nil {
			return console.Fail(r.typed(err))
		}
		return 0
	}
	console.Unread()
	if err := r.openReport(); err != nil {
		return console.Fail(err)
	}
	status := r.all()
	if r.state != overlay.Kept.String() && r.session != nil && !r.dropped {
		record.Tidy()
	}
	if err := r.writeReport(status); err != nil {
		return console.Fail(err)
	}
	return status
}

// all is everything but the report.
func (r *runner) all() int {
	// First where a session is opened, which may be one of those; else while programs load.
	resumes := r.o.session != "" || r.o.on != ""
	if resumes {
		tellRecovered()
	}
	c, q, err := r.request()
	if err != nil {
		return console.Fail(err)
	}
	n := nsrunlib.NewRunner(c)
	n.Preload()
	if !resumes && !r.o.direct {
		tellRecovered()
	}
	if !r.o.direct && console.IsTerminal(os.Stderr) {
		r.before = console.SaveTerminal()
	}
	status := r.run(n, q)
	err = r.finish(status)
	r.noteRun(c)
	if err != nil {
		return failDecision("commit", err, r.session)
	}
	return status
}

// runner is one `nsrun run`.
type runner struct {
	o       *runOptions
	given   map[string]string // folders as they were typed, by absolute path
	signals chan os.Signal
	before  *console.Terminal // how the terminal was; nil: nothing is said on it

	execution *nsrunlib.Execution // nil: the command was not started
	watched   chan struct{}       // closed when all is told that was seen; nil: nobody looks
	session   *overlay.Session    // nil: there is none, or the command was not started
	engine    string              // how changes were kept apart

	report   *os.File // nil: none
	dropped  bool     // the session is no more
	registry *project.Registry
	changes  []overlay.Change
	held     []overlay.Change // that were not committed with the others
	backups  []backupReport
	network  nsrunlib.Network
	missing  []features.Name
	took     time.Duration // from the start of the command to its end
	refusal  refusal
	signal   string
	timedOut bool
	state    string
}

func (r *runner) close() {
	if err := r.registry.Close(); err != nil {
		console.Say("registry: %s", err)
	}
	if r.session == nil {
		return
	}
	if err := r.session.DropScratch(); err != nil && !errors.Is(err, os.ErrClosed) {
		console.Say("%s", err)
	}
	_ = r.session.Close()
}

// request is what the flags mean.
func (r *runner) request() (c nsrunlib.Config, q nsrunlib.Request, err error) {
	o := r.o
	wd, err := os.Getwd()
	if err != nil {
		return c, q, err
	}
	dir := wd
	if o.dir != "" && o.dir != playground {
		if dir, err = workingDir(o.dir); err != nil {
			return c, q, err
		}
	}
	r.given = make(map[string]string)
	c = nsrunlib.Config{
		Session: o.session, On: o.on, Engine: o.engine, Preset: o.preset, After: nsrunlib.Hold,
		Env: o.env, ClearEnv: o.clearEnv, Timeout: o.timeout, Approver: r, Watch: o.watch,
		Net: netpolicy.Policy{Rules: o.allowNet}, Enforcer: o.enforcer, Publish: o.publish,
	}
	for _, path := range o.allowUnix {
		abs, err := fromHere(path)
		if err != nil {
			return c, q, err
		}
		if path == nsrunlib.AbstractSockets {
			abs = path
		}
		r.given[abs] = path
		c.AllowUnix = append(c.AllowUnix, abs)
	}
	if _, _, err := project.DefaultDirs(); err == nil {
		c.Recorder = nsrunlib.Registry{Registry: r.registry}
	}
	if o.direct {
		c.Mode = nsrunlib.Direct
	}
	for _, root := range o.projects {
		abs, err := fromHere(root)
		if err != nil {
			return c, q, err
		}
		r.given[abs] = root
		c.Shared = append(c.Shared, nsrunlib.Folder{Path: abs, Mode: c.Mode})
	}
	if len(o.projects) == 0 && o.session == "" && o.on == "" {
		if c.Project, err = projectAround(dir); err != nil {
			return c, q, err
		}
	}
	for _, rule := range o.paths {
		pattern, err := fromHere(rule.pattern)
		if err != nil {
			return c, q, err
		}
		for _, m := range ruleModes {
			if m.kind == rule.kind {
				c.Rules = append(c.Rules, nsrunlib.Rule{Mode: m.mode, Pattern: pattern})
			}
		}
	}
	if id := o.session + o.on; id != "" && o.dir == "" {
		if dir, err = sessionDir(id, dir); err != nil {
			return c, q, err
		}
	}
	if o.dir == playground {
		dir = playground
	}
	q = nsrunlib.Request{
		Args: o.command, WorkingDir: dir, Network: o.net == "host", LearnNet: o.learnNet,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Passthrough: true,
	}
	return c, q, nil
}

// playground is the word for $HOME/playground.
const playground = "playground"

// sessionDir is where a command runs in a session whose roots another one had: in the
// first, if the current directory is in none.
func sessionDir(id, dir string) (string, error) {
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return "", err
	}
	defer s.Close()
	roots := s.Roots()
	if real, err := realPath(dir); err == nil {
		for _, root := range roots {
			if inside(real, root.Path) {
				return dir, nil
			}
		}
	}
	return roots[0].Path, nil
}

// workingDir is the directory that -C names.
func workingDir(name string) (string, error) {
	dir, err := fromHere(name)
	if err != nil {
		return "", err
	}
	real, err := trusted(dir)
	if led, ok := errors.AsType[*links.Error](err); ok {
		return "", usage.Errorf("run", "-C %s: %s", escape.Quote(name), led)
	}
	if err == nil {
		dir = real
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("working directory does not exist: %s", escape.Quote(name))
	case !fi.IsDir():
		return "", fmt.Errorf("working directory is not a directory: %s", escape.Quote(name))
	}
	return dir, nil
}

// typed is an error about what was typed, in the words in which it was.
func (r *runner) typed(err error) error {
	if e, ok := errors.AsType[*nsrunlib.RuleError](err); ok && e.Index < len(r.o.paths) {
		rule := r.o.paths[e.Index]
		return usage.Errorf("run", "--%s %s: %s", rule.kind, escape.Quote(rule.pattern), e.Err)
	}
	if e, ok := errors.AsType[*nsrunlib.Error](err); ok {
		if given, ok := r.given[e.Path]; ok {
			e.Path = given
		}
	}
	if e, ok := errors.AsType[*overlay.Error](err); ok && e.Op == "use as project" {
		if given, ok := r.given[e.Path]; ok {
			e.Path = given
		}
	}
	if e, ok := errors.AsType[*nsrunlib.DirError](err); ok && r.o.dir != playground {
		return e.Err // with more about it
	}
	if _, ok := errors.AsType[*nsrunlib.DeniedError](err); ok {
		return errors.New("network access was not approved: it needs a yes on a terminal, every time")
	}
	return err
}

// Approve asks on the terminal. Ctrl-C is an answer too: signals are not the command's
// before there is one.
func (r *runner) Approve(ctx context.Context, q nsrunlib.Question) (nsrunlib.Answer, error) {
	signal.Stop(r.signals)
	defer r.notify()
	return nsrunlib.Terminal{Prefix: "nsrun: "}.Approve(ctx, q)
}

func (r *runner) notify() {
	for _, s := range console.Forwarded {
		// What our caller ignores the command ignores too (nohup): a handler of ours
		// would be the default in it.
		if !signal.Ignored(s) {
			signal.Notify(r.signals, s)
		}
	}
}

// run runs the command and returns its exit status.
func (r *runner) run(runner *nsrunlib.Runner, q nsrunlib.Request) int {
	r.signals = make(chan os.Signal, 16)
	r.notify()
	defer signal.Stop(r.signals)
	defer func() {
		if err := runner.Close(); err != nil {
			console.Say("%s", err)
		}
	}()
	x, err := runner.Start(context.Background(), q)
	if s := x.Session(); s != nil {
		r.engine = s.Info().Engine.String()
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			if res, _ := x.Wait(); res.Session != "" {
				console.Say("it had just begun: what it wrote is kept in session %s", res.Session)
			}
			return r.timeOut()
		}
		if _, ok := errors.AsType[*nsrunlib.DirError](err); ok && r.o.dir == playground {
			for _, notice := range x.Notices() { // why it does not exist
				console.Say("%s", notice)
			}
		}
		return console.Fail(r.typed(err))
	}
	r.execution, r.session = x, x.Session()
	for _, notice := range x.Notices() {
		if r.o.quiet {
			break
		}
		switch {
		case strings.HasPrefix(notice, "git "):
			notice += " (try: nsrun run --project . --project DIR)"
		case strings.HasPrefix(notice, "root has no privileges "):
			notice += " (try: run nsrun as that user, with sudo -u or su)"
		case strings.HasPrefix(notice, "group of "):
			notice += " (try: nsrun run --engine copy)"
		}
		console.Say("%s", notice)
	}
	if r.o.watch {
		r.watched = make(chan struct{})
		go r.watch(x.Events())
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-r.signals:
				_ = x.Signal(s)
			case <-done:
				return
			}
		}
	}()
	stopLooking := r.lookForRefusals(x)
	res, err := x.Wait()
	stopLooking()
	close(done)
	r.before.Restore()
	console.CommandEnded()
	if r.session == nil { // else Collect records
		r.tell(res)
	}
	r.signal, r.network, r.took = res.SignalName(), res.Network, res.Duration
	r.missing = res.Missing
	r.tellNetwork()
	switch {
	case res.TimedOut:
		return r.timeOut()
	case err != nil:
		return console.Fail(err)
	}
	return res.ExitCode
}

// tell says what could not be recorded.
func (r *runner) tell(res nsrunlib.Result) {
	for _, notice := range res.Notices[len(r.execution.Notices()):] {
		if !r.o.quiet || strings.HasPrefix(notice, "registry: ") {
			console.Say("%s", strings.ReplaceAll(notice, "\n", "; "))
		}
	}
	for _, b := range res.Backups {
		r.backups = append(r.backups, backupReport{b.Path, b.Copy})
	}
}

// timeOut says that the command's time was up.
func (r *runner) timeOut() int {
	r.timedOut = true
	console.Say("timed out after %s", r.o.timeout)
	return console.ExitTimeout
}

// finish decides what becomes of the changes, and says so.
func (r *runner) finish(status int) error {
	if r.session == nil {
		return nil
	}
	r.state = overlay.Kept.String()
	if err := r.collect(); err != nil {
		return err
	}
	if len(r.changes) == 0 {
		if r.session.Retimed() > 0 && r.o.commit && status == 0 { // as make's stamps
			if err := r.session.CommitWith(context.Background(), overlay.CommitOptions{}); err != nil {
				return err
			}
			r.state = overlay.Committed.String()
			return nil
		}
		if !r.o.quiet && (r.o.keep || console.IsTerminal(os.Stderr)) {
			console.Say("no changes")
		}
		if r.o.session != "" {
			return nil
		}
		r.state = overlay.Discarded.String()
		return r.drop()
	}
	id := r.session.ID()
	if !r.o.quiet {
		var moved []overlay.Rename
		if slices.ContainsFunc(r.changes, func(c overlay.Change) bool { return c.Kind == overlay.Deleted }) {
			moved, _ = r.session.Renames(r.changes) // without, they are listed one by one
		}
		console.ClearModes()
		diff.Print(os.Stderr, "nsrun: ", r.changes, moved, len(r.session.Roots()) > 1)
	}
	// What can be merged later depends on it, so it is done before anybody is asked; where
	// nothing is to be kept, only if that fails.
	var preserved error
	if kept := !r.o.discard && (!r.o.commit || status != 0); kept {
		preserved = r.preserve()
	}
	decision := r.decide(status)
	if decision == "review" && r.execution.Unstored() == nil {
		if preserved != nil {
			console.Say("%s", preserved)
		}
		review.Run(r.session, r.changes, nil, false)
		r.state = r.session.State().String()
		return nil
	}
	switch decision {
	case "commit":
		bar := console.NewBar("committing", r.o.quiet)
		ctx, stop := console.Interruptible()
		err := r.session.CommitWith(ctx, overlay.CommitOptions{
			Progress: bar.Progress(), AllowExec: r.o.allowExec, AllowSpecial: r.o.allowSpecial, HoldSpecial: r.o.commit,
		})
		stop()
		bar.End()
		r.held = r.session.Held()
		if _, nothing := errors.AsType[*overlay.HeldError](err); nothing {
			sayHeld(r.session, r.held, overlay.CommitOptions{})
			if perr := r.preserve(); perr != nil {
				console.Say("%s", perr)
			}
			return nil
		}
		if err != nil {
			r.held = nil
			if _, applied := errors.AsType[*overlay.CommitError](err); applied {
				return err
			}
			if perr := r.preserve(); perr != nil {
				console.Say("%s", perr)
			}
			if r.execution.Unstored() == nil {
				console.Say("the changes are kept as session %s", id)
			}
			return err
		}
		r.state = overlay.Committed.String()
		record.Commit(r.session)
		if !r.o.quiet {
			console.Say("committed %s", console.Plural(len(r.changes)-r.left(), "change"))
		}
		if r.held != nil {
			sayHeld(r.session, r.held, overlay.CommitOptions{})
			if err := r.session.Preserve(context.Background(), r.held); err != nil {
				console.Say("%s", err)
			}
		}
	case "discard":
		end, hint := r.session.Discard, ": nsrun undo "+id+" takes it back"
		if r.o.discard { // which was said beforehand: nobody has anything to miss
			end, hint = r.session.Erase, ""
		}
		if err := end(); err != nil {
			return err
		}
		r.state = overlay.Discarded.String()
		record.Discard(id)
		if !r.o.quiet {
			console.Say("discarded %s%s", console.Plural(len(r.changes), "change"), hint)
		}
	default:
		if r.execution.Unstored() != nil {
			return preserved
		}
		if preserved != nil {
			console.Say("%s", preserved)
		}
		if !r.o.quiet {
			console.Say("kept %s: nsrun commit %s, or nsrun discard %s", console.Plural(len(r.changes), "change"), id, id)
		}
	}
	return nil
}

// left is how many changes a commit left: what was held back, and directories that are
// there for nothing else.
func (r *runner) left() (n int) {
	if r.held == nil {
		return 0
	}
	for _, err := range r.session.Changes() {
		if err == nil {
			n++
		}
	}
	return n
}

// decide is what to do with the changes: as the flags say; on a terminal as the
// user says; else keep.
func (r *runner) decide(status int) string {
	switch {
	case r.o.commit && status != 0:
		console.Say("the command failed: its changes are not committed")
		return "keep"
	case r.o.commit:
		return "commit"
	case r.o.discard:
		return "discard"
	case !r.asks():
		return "keep"
	}
	for {
		switch console.Ask("commit, discard or keep (r: review, v: diff, ?: help)? [c/d/K]") {
		case "c", "commit":
			return "commit"
		case "d", "discard":
			return "discard"
		case "r", "review":
			return "review"
		case "v", "view", "diff":
			if err := r.view(); err != nil {
				console.Say("%s", err)
			}
		case "?", "h", "help":
			console.Say("c: the changes become the project's; nsrun undo takes them back")
			console.Say("d: they are thrown away")
			console.Say("k: they are kept as a session, for nsrun diff, review, commit, discard")
			console.Say("r: choose one by one; v: show the diff")
		default:
			return "keep"
		}
	}
}

// view shows the diff on the terminal.
func (r *runner) view() error {
	moved, err := r.session.Renames(r.changes)
	if err != nil {
		return err
	}
	colour, err := (&diffFlags{colour: "auto"}).useColour(console.IsTerminal(os.Stdout))
	if err != nil {
		return err
	}
	out := console.OpenOutput()
	o := diff.Options{Colour: colour, Escape: out.Terminal, Several: len(r.session.Roots()) > 1, Renames: diff.IndexRenames(moved)}
	for _, c := range r.changes {
		if err == nil && !o.Renames.Inside(c) {
			err = diff.Write(out, r.session, c, o)
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return console.Unwanted(err)
}

// asks reports whether the user decides, once there are changes.
func (r *runner) asks() bool {
	return !r.o.direct && !r.o.commit && !r.o.discard && !r.o.keep && console.IsTerminal(os.Stdin) && console.IsTerminal(os.Stderr)
}

// drop removes a session that has nothing in it.
func (r *runner) drop() error {
	r.dropped = true
	return r.session.Remove()
}

// noteRun is noteRun for what was run.
func (r *runner) noteRun(c nsrunlib.Config) {
	switch {
	case r.session != nil:
		id := r.session.ID()
		if r.dropped {
			id = ""
		}
		for _, root := range r.session.Roots() {
			noteRun(id, root.Path)
		}
	case r.execution != nil && c.Project != "":
		if real, err := realPath(c.Project); err == nil {
			noteRun("", real)
		}
	}
}
