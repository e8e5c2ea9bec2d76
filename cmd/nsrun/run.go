package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// runOptions are the flags of `nsrun run`.
type runOptions struct {
	dir                   string
	projects              []string
	session, on           string
	shell                 string
	shellSet              bool
	engine                overlay.Engine
	direct                bool
	commit, discard, keep bool
	paths                 []pathRule
	net                   string
	env                   []string
	clearEnv              bool
	timeout               time.Duration
	report                string
	explain, quiet        bool
	command               []string
}

// pathRule is one --rw, --ro or --block, in the order given.
type pathRule struct{ kind, pattern string }

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

// listFlag collects the values of a flag that may be repeated.
type listFlag []string

func (f *listFlag) String() string     { return "" }
func (f *listFlag) Set(s string) error { *f = append(*f, s); return nil }

func runFlags(fs *flag.FlagSet, o *runOptions) {
	fs.StringVar(&o.dir, "C", "", "working `directory`")
	fs.StringVar(&o.dir, "dir", "", "working `directory`")
	fs.Var((*listFlag)(&o.projects), "project", "project root `directory` (repeatable; default: the git work tree, else the current directory)")
	fs.Func("session", "add to a `SESSION` that was kept; its roots are the project, the first one is the working directory", sessionValue(&o.session))
	fs.Func("on", "begin a session on top of another `SESSION`, whose changes the command sees", sessionValue(&o.on))
	fs.Func("c", "run a shell `string` with /bin/sh -c", func(s string) error { o.shell, o.shellSet = s, true; return nil })
	fs.BoolVar(&o.direct, "direct", false, "write straight into the project, no overlay; .git is read-only, but for objects, refs and logs")
	fs.BoolVar(&o.commit, "commit", false, "commit the changes afterwards, if the command succeeds")
	fs.BoolVar(&o.discard, "discard", false, "discard the changes afterwards")
	fs.BoolVar(&o.keep, "keep", false, "keep the changes as a session, without asking")
	fs.Func("engine", "keep the changes apart by `overlay|tmpfs|copy` (default: what suits the file systems)", o.setEngine)
	fs.Var(ruleFlag{"rw", &o.paths}, "rw", "make a `path` writable, without overlay (--rw, --ro, --block: repeatable, globs; later ones win)")
	fs.Var(ruleFlag{"ro", &o.paths}, "ro", "make a `path` read-only")
	fs.Var(ruleFlag{"block", &o.paths}, "block", "hide a `path`")
	fs.StringVar(&o.net, "net", "none", "network: `none|host`; host is the host's own, and has to be approved every time")
	fs.Var((*listFlag)(&o.env), "env", "set `K=V`, or pass K on (repeatable)")
	fs.BoolVar(&o.clearEnv, "clear-env", false, "pass nothing of the environment but PATH and HOME")
	fs.DurationVar(&o.timeout, "timeout", 0, "end the command after this `duration`")
	fs.StringVar(&o.report, "report", "", "write a JSON report to a `file`, a descriptor number, or - for standard output")
	fs.BoolVar(&o.explain, "explain", false, "print what would be done, do nothing")
	fs.BoolVar(&o.quiet, "q", false, "do not say what changed")
}

// sessionValue takes the id of a session. An empty one is a mistake, that of a script
// whose variable is not set.
func sessionValue(to *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return errors.New("empty id")
		}
		*to = s
		return nil
	}
}

func parseRun(args []string) (*runOptions, error) {
	o := &runOptions{}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	runFlags(fs, o)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &usageError{"run", flagText(err)}
	}
	o.command = fs.Args()
	if o.shellSet {
		o.command = append([]string{"/bin/sh", "-c", o.shell}, o.command...)
	}
	n := 0
	for _, b := range [...]bool{o.commit, o.discard, o.keep} {
		if b {
			n++
		}
	}
	switch {
	case len(o.command) == 0:
		return nil, &usageError{"run", "no command"}
	case n > 1:
		return nil, &usageError{"run", "--commit, --discard and --keep exclude each other"}
	case o.direct && n > 0:
		return nil, &usageError{"run", "--direct leaves nothing to commit, discard or keep"}
	case o.session != "" && len(o.projects) > 0:
		return nil, &usageError{"run", "--session has roots of its own: no --project with it"}
	case o.session != "" && o.direct, o.session != "" && o.on != "", o.on != "" && o.direct:
		return nil, &usageError{"run", "--session, --on and --direct exclude each other"}
	case o.session != "" && o.discard:
		return nil, &usageError{"run", "--discard would throw away what the session held before: use nsrun discard"}
	case o.engine != 0 && (o.session != "" || o.direct):
		return nil, &usageError{"run", "--engine is for a new session"}
	case o.net != "none" && o.net != "host":
		return nil, &usageError{"run", fmt.Sprintf("--net %s: only none and host", quote(o.net))}
	case o.timeout < 0:
		return nil, &usageError{"run", "--timeout is negative"}
	}
	return o, nil
}

func run(args []string) int {
	o, err := parseRun(args)
	if errors.Is(err, flag.ErrHelp) {
		return help([]string{"run"})
	}
	if err != nil {
		return fail(err)
	}
	r := &runner{o: o, began: time.Now(), state: overlay.Discarded.String()}
	if o.session != "" {
		r.state = overlay.Kept.String()
	}
	defer r.close()
	if o.explain {
		if err := r.prepare(); err != nil {
			return fail(err)
		}
		if err := r.cmd.Explain(os.Stdout); err != nil {
			return fail(err)
		}
		return 0
	}
	if err := r.openReport(); err != nil {
		return fail(err)
	}
	status := r.all()
	if r.state != overlay.Kept.String() && r.started() && !r.dropped {
		tidy()
	}
	if err := r.writeReport(status); err != nil {
		return fail(err)
	}
	return status
}

// all is everything but the report.
func (r *runner) all() int {
	if r.o.net == "host" {
		switch ask(fmt.Sprintf("run with network access: %s? [y/N]", quoteCommand(r.o.command))) {
		case "y", "yes":
		default:
			say("network access was not approved: it needs a yes on a terminal, every time")
			return exitFailed
		}
	}
	if !r.o.direct {
		tellRecovered()
	}
	if err := r.prepare(); err != nil {
		return fail(err)
	}
	var before *terminal
	if r.asks() {
		before = saveTerminal()
	}
	status := r.run()
	before.restore()
	if err := r.finish(status); err != nil {
		return failDecision("commit", err, r.session)
	}
	return status
}

// runner is one `nsrun run`.
type runner struct {
	o       *runOptions
	began   time.Time
	session *overlay.Session // nil: --direct
	engine  overlay.Engine   // that was found to work; zero: as overlay chooses
	resumed bool             // the session was there before
	spec    nsrunlib.Spec
	cmd     *nsexec.Cmd
	cancel  context.CancelFunc
	ctx     context.Context

	canceled atomic.Bool // the command was asked to end, because its time was up

	report   *os.File // nil: none
	dropped  bool     // the session is no more
	unstored error    // why the changes are in memory only; nil: they are not
	changes  []overlay.Change
	signal   os.Signal
	timedOut bool
	state    string
}

// started reports whether the command was executed.
func (r *runner) started() bool { return r.cmd != nil && r.cmd.Process != nil }

func (r *runner) close() {
	if r.cancel != nil {
		r.cancel()
	}
	if r.session == nil {
		return
	}
	drop := r.session.DropScratch
	if !r.started() && !r.resumed {
		drop = r.session.Remove
	}
	if err := drop(); err != nil && !errors.Is(err, os.ErrClosed) {
		say("%s", err)
	}
	_ = r.session.Close()
}

// prepare makes the session and the command.
func (r *runner) prepare() error {
	o := r.o
	homes := nsrunlib.Homes()
	if len(homes) == 0 {
		return errors.New("find home directory: neither /etc/passwd nor HOME has one, and secrets below it could not be hidden")
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	dir := wd
	if o.dir != "" {
		if dir, err = workingDir(o.dir); err != nil {
			return err
		}
	}
	roots := o.projects
	switch {
	case len(roots) > 0 || o.session != "" || o.on != "":
	case o.direct:
		roots = []string{workTree(dir)}
	default:
		var notice string
		if roots, notice = defaultRoots(dir); notice != "" && !o.quiet {
			say("%s", notice)
		}
	}
	plan := nsrunlib.BaseMounts()
	var table []mounts.Info
	if !o.direct {
		if table, err = mounts.ReadMountinfo(); err != nil {
			return err
		}
	}
	if o.direct {
		direct, err := directMounts(roots)
		if err != nil {
			return err
		}
		plan = append(plan, direct...)
	} else if !o.explain {
		if err := r.openSession(roots); err != nil {
			return err
		}
		dir = sessionDir(o, r.session, dir)
		for _, root := range r.session.Roots() {
			if sub := mountBelow(table, root.Path); sub != "" {
				return &mountError{root.Path, sub}
			}
		}
		caches, err := r.cacheMounts(table)
		if err != nil {
			return err
		}
		plan = append(append(plan, caches...), r.session.Mounts()...)
	} else if id := o.session + o.on; id != "" {
		s, err := overlay.OpenReadOnly("", id)
		if err != nil {
			return err
		}
		for i, m := range s.Mounts() {
			if o.on != "" {
				n := strconv.Itoa(i + 1)
				m.Lower = append([]string{m.Upper}, m.Lower...)
				m.Upper, m.Work = "/SESSION/upper/overlay"+n, "/SESSION/work/overlay"+n
			}
			plan = append(plan, m)
		}
		dir = sessionDir(o, s, dir)
		_ = s.Close()
	} else {
		for i, root := range roots {
			if root, err = realPath(root); err != nil {
				return err
			}
			if sub := mountBelow(table, root); sub != "" {
				return &mountError{root, sub}
			}
			n := strconv.Itoa(i + 1)
			plan = append(plan, mounts.Overlay(root, "/SESSION/upper/overlay"+n, "/SESSION/work/overlay"+n, root))
		}
	}
	plan = append(plan, nsrunlib.HideSecrets()...)
	for _, m := range nsrunlib.HideSockets() {
		// A socket's copy in an overlay leads nowhere.
		if r.session == nil || !within(r.session, m.Target) {
			plan = append(plan, m)
		}
	}
	rules, err := ruleMounts(o.paths)
	if err != nil {
		return err
	}
	plan = append(plan, rules...)
	if o.net == "host" {
		r.spec.Share |= nsexec.Net
		plan = append(plan, mounts.ROBind("/run/systemd/resolve", "/run/systemd/resolve").Try())
	}
	// Sessions are no business of what runs in one, whatever the rules say.
	if state, err := overlay.DefaultDir(); err == nil {
		if err := keepState(state, plan); err != nil {
			return err
		}
		plan = append(plan, mounts.Block(filepath.Dir(state)))
	}
	if err := standardFiles(); err != nil {
		return err
	}
	r.spec.Mounts, r.spec.Dir, r.spec.Env = plan, dir, environment(o, table)
	r.ctx = context.Background()
	if o.timeout > 0 {
		r.ctx, r.cancel = context.WithTimeout(r.ctx, o.timeout)
	}
	r.cmd = r.spec.CommandContext(r.ctx, o.command[0], o.command[1:]...)
	if r.session != nil {
		r.cmd.Layers = r.session.Layers()
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// As timeout(1): a request first, and no patience after that.
	r.cmd.Cancel = func() error {
		err := r.cmd.Process.Signal(syscall.SIGTERM)
		if err == nil {
			r.canceled.Store(true)
		}
		return err
	}
	r.cmd.WaitDelay = 2 * time.Second
	return nil
}

// openSession begins a session, or goes on with one.
func (r *runner) openSession(roots []string) (err error) {
	if r.o.on != "" && len(roots) == 0 {
		s, err := overlay.OpenReadOnly("", r.o.on)
		if err != nil {
			return err
		}
		for _, root := range s.Roots() {
			roots = append(roots, root.Path)
		}
		_ = s.Close()
	}
	if r.o.session == "" {
		r.session, err = overlay.Create(overlay.Options{Roots: roots, Command: r.o.command, On: r.o.on, Engine: max(r.engine, r.o.engine)})
		return err
	}
	s, err := overlay.Open("", r.o.session)
	if err != nil {
		return err
	}
	if err := s.Resume(r.o.command); err != nil {
		_ = s.Close()
		return err
	}
	r.session, r.resumed = s, true
	return nil
}

// sessionDir is where a command runs in a session whose roots another one had: in the
// first, if the current directory is in none and no other one was given.
func sessionDir(o *runOptions, s *overlay.Session, dir string) string {
	if o.session == "" && o.on == "" || o.dir != "" {
		return dir
	}
	if real, err := realPath(dir); err == nil && within(s, real) {
		return dir
	}
	return s.Roots()[0].Path
}

// workingDir is the directory that -C names.
func workingDir(name string) (string, error) {
	if name == "playground" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		name = filepath.Join(home, "playground")
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("working directory does not exist: %s", quote(name))
	case !fi.IsDir():
		return "", fmt.Errorf("working directory is not a directory: %s", quote(name))
	}
	return dir, nil
}

// keepState refuses to make writable what holds the state directory: it could be
// moved away, and another one put in its place.
func keepState(state string, plan mounts.Plan) error {
	real := state
	for {
		// What does not exist yet is found by its parents.
		resolved, err := filepath.EvalSymlinks(real)
		if err == nil {
			real = resolved
			break
		}
		if real == filepath.Dir(real) {
			break
		}
		real = filepath.Dir(real)
	}
	for _, m := range plan {
		if m.Kind == mounts.KindBind && !m.ReadOnly && (inside(real, m.Target) || inside(state, m.Target)) {
			return fmt.Errorf("%s would be writable, and the sessions' directory %s with it", quote(m.Target), quote(state))
		}
	}
	return nil
}

// standardFiles refuses directories as standard input, output or error: through
// one the command could reach all that is below it.
func standardFiles() error {
	for fd, name := range [...]string{"standard input", "standard output", "standard error"} {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("%s is a directory", name)
		}
	}
	return nil
}

// workTree is the git work tree around dir, or dir itself. Directories of others
// are no work tree of the caller's, whatever somebody put into them.
func workTree(dir string) string {
	for d := dir; own(d); d = filepath.Dir(d) {
		if git := filepath.Join(d, ".git"); own(git) {
			return d
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return dir
}

// own reports whether there is a file of that name and it is the caller's.
func own(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && int(st.Uid) == os.Geteuid()
}

// realPath is a path of the host, absolute and without symbolic links.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return real, err
}

// bindReal is a bind of what is at real, a path without symbolic links, at the same
// path. A path is looked up again when it is mounted: if it leads elsewhere by then,
// that is an error.
func bindReal(real string, writable bool) (mounts.Mount, error) {
	m := mounts.ROBind(real, real)
	if writable {
		m = mounts.Bind(real, real)
	}
	fail := func(err error) (mounts.Mount, error) { return m, &os.PathError{Op: "open", Path: real, Err: err} }
	fd, err := unix.Openat2(unix.AT_FDCWD, real, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err)
	}
	m.Same = fileID(&st)
	return m, nil
}

// inside reports whether the absolute path p is dir or lies below it.
func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// caches are directories below the home directory that build tools cannot do
// without. They are readable as they are; what is written to them is gone
// afterwards.
var caches = [...]string{".cache", "go/pkg", ".npm", ".cargo", ".rustup", ".m2/repository", ".gradle", ".ccache", ".yarn", ".bun"}

// mountBelow is a mount point below dir that can be seen, "" if there is none.
func mountBelow(table []mounts.Info, dir string) string {
	if below := mounts.Below(table, dir); len(below) > 1 {
		return filepath.Join(dir, below[1].Target)
	}
	return ""
}

// mountError is a project that the kernel takes for no layer of an overlay: in a
// user namespace it could show what the other file system hides.
type mountError struct{ root, sub string }

func (e *mountError) Error() string {
	return fmt.Sprintf("project %s has another file system mounted at %s: an overlay cannot hold it", quote(e.root), quote(e.sub))
}

// cacheMounts makes the caches writable, but for those that an overlay cannot hold.
func (r *runner) cacheMounts(table []mounts.Info) (p mounts.Plan, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, nil // nothing below it then
	}
	for _, c := range caches {
		dir := filepath.Join(home, c)
		if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() || within(r.session, dir) || inside(r.session.Dir(), dir) {
			continue
		}
		if real, err := realPath(dir); err != nil || mountBelow(table, real) != "" {
			continue
		}
		m, err := r.session.Scratch(dir)
		if err != nil {
			return nil, err
		}
		p = append(p, m)
	}
	return p, nil
}

// within reports whether dir is a root of the session or lies in one.
func within(s *overlay.Session, dir string) bool {
	for _, root := range s.Roots() {
		if inside(dir, root.Path) {
			return true
		}
	}
	return false
}

// ruleMounts are --rw, --ro and --block in their order. A rule for a directory
// does not show the secrets in it: that takes one that names them.
func ruleMounts(rules []pathRule) (p mounts.Plan, err error) {
	if len(rules) == 0 {
		return nil, nil
	}
	secrets := nsrunlib.HideSecrets()
	for _, rule := range rules {
		pattern, err := filepath.Abs(rule.pattern)
		if err != nil {
			return nil, err
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, &usageError{"run", fmt.Sprintf("--%s %s: %s", rule.kind, quote(rule.pattern), err)}
		}
		if len(paths) == 0 {
			return nil, &usageError{"run", fmt.Sprintf("--%s %s: no such path", rule.kind, quote(rule.pattern))}
		}
		for _, path := range paths {
			if rule.kind == "block" {
				p = append(p, mounts.Block(path))
				continue
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return nil, err
			}
			m, err := bindReal(real, rule.kind == "rw")
			if err != nil {
				return nil, err
			}
			p = append(p, m)
			for _, secret := range secrets {
				if at, err := filepath.EvalSymlinks(secret.Target); err == nil && at != real && inside(at, real) {
					p = append(p, mounts.Block(at))
				}
			}
		}
	}
	return p, nil
}

// writableCache reports whether cacheMounts makes ~/.cache writable. Where it does
// not, because there is none yet or no session to keep it in, programs are told
// of another place.
func writableCache(o *runOptions, table []mounts.Info) bool {
	home, err := os.UserHomeDir()
	if err != nil || o.direct {
		return false
	}
	dir, err := realPath(filepath.Join(home, ".cache"))
	return err == nil && isDir(filepath.Join(home, ".cache")) && mountBelow(table, dir) == ""
}

// environment is what the command gets.
func environment(o *runOptions, table []mounts.Info) []string {
	var env []string
	if o.clearEnv {
		for _, name := range [...]string{"PATH", "HOME"} {
			if v, ok := os.LookupEnv(name); ok {
				env = append(env, name+"="+v)
			}
		}
	} else {
		env = slices.DeleteFunc(nsrunlib.SafeEnv(os.Environ()), func(kv string) bool {
			// Such a directory is not there, or not writable; /tmp is.
			name, _, _ := strings.Cut(kv, "=")
			return name == "TMPDIR" || name == "TMP" || name == "TEMP" || name == "TEMPDIR"
		})
		if _, given := os.LookupEnv("XDG_CACHE_HOME"); !given && !writableCache(o, table) {
			env = append(env, "XDG_CACHE_HOME=/tmp/.cache")
		}
	}
	for _, kv := range o.env {
		name, _, assigned := strings.Cut(kv, "=")
		if !assigned {
			v, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			kv = name + "=" + v
		}
		kept := env[:0]
		for _, e := range env {
			if n, _, _ := strings.Cut(e, "="); n != name {
				kept = append(kept, e)
			}
		}
		env = append(kept, kv)
	}
	if env == nil {
		env = []string{}
	}
	return env
}

// forwarded are the signals that go on to the command.
var forwarded = [...]os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// run runs the command and returns its exit status.
func (r *runner) run() int {
	signals := make(chan os.Signal, 16)
	for _, s := range forwarded {
		// What our caller ignores the command ignores too (nohup): a handler of ours
		// would be the default in it.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	err := r.cmd.Start()
	for err != nil {
		again, other := r.otherEngine(err)
		if !again {
			err = cmp.Or(other, err)
			break
		}
		err = r.cmd.Start()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return r.timeOut()
	} else if err != nil {
		return fail(err)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = r.cmd.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	err = r.cmd.Wait()
	close(done)
	if ps := r.cmd.ProcessState; ps != nil {
		if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			r.signal = ws.Signal()
		}
	}
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case r.canceled.Load():
		return r.timeOut()
	case exited:
		return exitStatus(r.cmd.ProcessState)
	case err != nil:
		return fail(err)
	}
	return 0
}

// timeOut says that the command's time was up.
func (r *runner) timeOut() int {
	r.timedOut = true
	say("timed out after %s", r.o.timeout)
	return exitTimeout
}

// finish decides what becomes of the changes, and says so.
func (r *runner) finish(status int) error {
	if r.session == nil {
		return nil
	}
	if !r.started() {
		if r.resumed {
			return nil
		}
		return r.drop()
	}
	r.state = overlay.Kept.String()
	r.collect()
	for c, err := range r.session.Changes() {
		if err != nil {
			return err
		}
		r.changes = append(r.changes, c)
	}
	if len(r.changes) == 0 {
		if r.resumed {
			return nil
		}
		r.state = overlay.Discarded.String()
		return r.drop()
	}
	id := r.session.ID()
	if !r.o.quiet {
		printChanges(os.Stderr, "nsrun: ", r.changes, len(r.session.Roots()) > 1)
	}
	// What can be merged later depends on it, so it is done before anybody is asked; where
	// nothing is to be kept, only if that fails.
	var preserved error
	if kept := !r.o.discard && (!r.o.commit || status != 0); kept {
		preserved = r.preserve()
	}
	switch r.decide(status) {
	case "commit":
		bar := newBar("committing", r.o.quiet)
		ctx, stop := interruptible()
		err := r.session.CommitWith(ctx, overlay.CommitOptions{Progress: bar.progress()})
		stop()
		bar.end()
		if err != nil {
			if _, applied := errors.AsType[*overlay.CommitError](err); applied {
				return err
			}
			if perr := r.preserve(); perr != nil {
				say("%s", perr)
			}
			if r.unstored == nil {
				say("the changes are kept as session %s", id)
			}
			return err
		}
		r.state = overlay.Committed.String()
		if !r.o.quiet {
			say("committed %s", plural(len(r.changes), "change"))
		}
	case "discard":
		if err := r.session.Discard(); err != nil {
			return err
		}
		r.state = overlay.Discarded.String()
		if !r.o.quiet {
			say("discarded %s", plural(len(r.changes), "change"))
		}
	default:
		if r.unstored != nil {
			return preserved
		}
		if preserved != nil {
			say("%s", preserved)
		}
		if !r.o.quiet {
			say("kept %s: nsrun commit %s, or nsrun discard %s", plural(len(r.changes), "change"), id, id)
		}
	}
	return nil
}

// decide is what to do with the changes: as the flags say; on a terminal as the
// user says; else keep.
func (r *runner) decide(status int) string {
	switch {
	case r.o.commit && status != 0:
		say("the command failed: its changes are not committed")
		return "keep"
	case r.o.commit:
		return "commit"
	case r.o.discard:
		return "discard"
	case !r.asks():
		return "keep"
	}
	switch ask("commit, discard or keep? [c/d/K]") {
	case "c", "commit":
		return "commit"
	case "d", "discard":
		return "discard"
	}
	return "keep"
}

// asks reports whether the user decides, once there are changes.
func (r *runner) asks() bool {
	return r.session != nil && !r.o.commit && !r.o.discard && !r.o.keep && isTerminal(os.Stdin) && isTerminal(os.Stderr)
}

// drop removes a session that has nothing in it.
func (r *runner) drop() error {
	r.dropped = true
	return r.session.Remove()
}
