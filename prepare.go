//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/renames"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// prepare calls prepareOnce, and calls it again if more has to be hidden or read-only than was known.
func (x *Execution) prepare(engine overlay.Engine) error {
	err := x.prepareOnce(engine)
	for err == errMoreHidden {
		x.whole = true
		err = x.prepareOnce(engine)
	}
	return err
}

// prepareOnce makes the command, and the session if there is none yet: it gathers the facts, and package plan decides
// from them. Slow searches run in the background. It is long because it contains the order of all facts.
func (x *Execution) prepareOnce(engine overlay.Engine) error {
	x.limit()
	c, q := &x.runner.config, &x.request
	f := plan.Facts{Home: host.Home(), Env: os.Environ()}
	if f.Home == "" {
		return errors.New("find home directory: neither /etc/passwd nor HOME has one, and secrets below it could not be hidden; try: export HOME=DIR")
	}
	_, err := host.CachePaths(f.Home, c.Caches)
	if err != nil {
		return err
	}
	suspect := c.suspect(q.Paths)
	if f.Folders, err = c.folders(suspect); err != nil {
		return err
	}
	landlock := x.landlock
	x.mirrored, x.plainCaches = x.runner.mirrors() || host.IgnoresCase(f.Home), x.runner.plainCaches.Load()
	if landlock {
		if err := x.openApart(); err != nil {
			return err
		}
		engine = overlay.EngineCopy
	}
	network := x.openNetwork()
	defer func() { _ = network() }() // where another error comes first
	x.inPlace = searchInPlace(f.Folders.Direct, c.has(GitPreset), x.explain || x.whole)
	if !landlock { // else no socket of the host can be connected to, seen or not
		x.sockets.begin(c.binds(&f.Folders, q), x.explain)
	}
	matched := x.matchRules(f.Home, suspect)
	hidden := make(chan host.Hidden, 1)
	go func() { hidden <- host.FindHidden(f.Home) }()

	if err := x.ownDirs(&f); err != nil {
		return err
	}
	if err := x.place(&f); err != nil {
		return err
	}
	if c.layered() {
		err = x.addSession(&f, engine)
	} else {
		err = x.addHomeLayer(&f, f.Folders.Direct)
	}
	if err != nil {
		return err
	}
	if err := x.addFolders(&f); err != nil {
		return err
	}
	h := <-hidden
	f.Secrets, f.SecretDirs, f.Linked, f.Absent, f.Texts, f.Present = h.Secrets, h.Dirs, h.Linked, h.Absent, h.Texts, h.Present
	f.HomeModes = h.Modes
	if !landlock {
		if f.Sockets, err = x.sockets.near(); err != nil {
			return err
		}
	}
	if err := x.addRules(&f, matched(), suspect); err != nil {
		return err
	}
	if err := x.openServices(f.Run || c.small(), suspect); err != nil {
		return err
	}
	if !landlock {
		f.Terminal.Path, f.Terminal.Same = host.Terminal(x.standard()...)
	}
	f.Unix = append(f.Unix, x.services.mounts...)
	f.Secrets = append(f.Secrets, x.services.secrets...)
	if err := network(); err != nil {
		return err
	}
	if x.net != nil {
		f.Network = x.net.mounts
	}
	if c.has(WorkspaceRootPreset) {
		if err := x.workspace(&f); err != nil {
			return err
		}
	}
	writable := f.Writable()
	host.Copies(f.Own, writable, x.explain)
	if len(writable) > 0 || x.explain {
		f.Kept = host.ConfigDirs(f.Home)
	}
	// Nsrun's own playground does not count: nobody else can enter the directory that it is in.
	written := len(writable)+len(f.Builds) > 0 || c.playground() && c.Playground != ""
	x.owners = x.keepsOwners(f.Session, written)
	f.Others = x.others(&f)
	if x.owners || c.OwnIDs {
		f.Texts = append(f.Texts, host.RootsTexts()...)
	}
	policy := x.policy(landlock)
	f.DirWay, f.DirAt = host.Way(policy.WorkingDir)
	box, notices, err := plan.Build(f, policy)
	x.notices = publicNotices(notices)
	x.homeTells()
	if err == nil {
		err = seesProject(&f, &box)
	}
	if err == nil && !landlock { // which is about files, under any name
		err = x.hasOneSpelling(&box)
	}
	if err == nil && x.runner.apart {
		err = x.keepApart(&f, &box)
	}
	if err != nil {
		return err
	}
	if err := x.keepsCredentials(&box); err != nil {
		return err
	}
	x.dir, x.direct, x.box, x.project = box.Dir, f.Folders.Direct, box, f.Folders.Project
	spec, err := x.spec(&box, landlock, policy.Temp, written)
	if err != nil {
		return err
	}
	var roots []string
	if f.Session != nil {
		roots = f.Session.Roots
	}
	return x.command(spec, roots)
}

// policy converts Config and Request for package plan.
func (x *Execution) policy(landlock bool) plan.Policy {
	c, q := &x.runner.config, &x.request
	p := plan.Policy{
		Strict: c.has(StrictPreset), Root: c.has(WorkspaceRootPreset), Playground: c.playground(), NoHomeOverlay: x.mirrored,
		HostNetwork: q.Network, BlockExisting: c.BlockExisting, UserNamespaces: c.userNamespaces(), OwnIDs: c.OwnIDs, Owners: x.owners,
		WorkingDir: q.WorkingDir, ClearEnv: c.ClearEnv, Env: slices.Concat(c.Env, q.Env, x.services.env),
	}
	if landlock && x.net != nil {
		p.Env = slices.Concat(resolveOverTCP(c.ClearEnv), p.Env)
	}
	if landlock {
		p.Temp = plannedTemp
		if x.walled.temp != nil {
			p.Temp = x.walled.temp.Path
		}
	}
	return p
}

// spec converts the decisions of package plan into a sandbox. written says whether the command writes to files of the
// host in place.
func (x *Execution) spec(box *plan.Sandbox, landlock bool, temp string, written bool) (Spec, error) {
	s := Spec{Mounts: box.Mounts, Dir: box.Dir, Env: box.Env}
	if box.HostCgroups {
		s.Share |= nsexec.Cgroup
	}
	// Where nsrun may not look into PID 1, it measures memory in the root of another process of the sandbox.
	s.ChangeRoot = (box.OwnIDs || box.Owners) && sys.Held()&(1<<unix.CAP_SYS_PTRACE) != 0
	s.NoSetGroupID = box.OwnIDs && written // it can have any group, and its files are there for others at once
	if box.UserNamespaces && landlock {
		return s, &Error{Op: opUserns, Err: errUsernsLandlock}
	}
	if box.UserNamespaces {
		if err := x.allowNamespaces(&s, written); err != nil {
			return s, err
		}
	}
	if x.request.Network {
		s.Share |= nsexec.Net
		s.AbstractSockets = slices.Contains(x.runner.config.AllowUnix, AbstractSockets)
	}
	if landlock {
		return s, x.holdApart(&s, box, temp)
	}
	return s, nil
}

// ownDirs finds nsrun's own directories, and makes those that would lie in a root of the session.
func (x *Execution) ownDirs(f *plan.Facts) error {
	c := &x.runner.config
	f.Own, f.Data = host.Own(f.Home, c.StateDir, c.privateDirs())
	if c.userNamespaces() && !x.explain {
		host.MakeState(f.Own)
	}
	if len(f.Folders.Overlay) == 0 {
		return nil
	}
	state, err := host.StateDir(c.StateDir)
	if err != nil {
		return err
	}
	if root, why := f.Folders.Hold(state, host.Nearest(state)); why != nil {
		return &overlay.Error{Op: plan.OpUse, Path: root, Err: why}
	}
	if x.explain {
		return nil
	}
	return host.MakeOwn(f.Own, f.Folders.Overlay)
}

// place finds what the host has at the places that matter.
func (x *Execution) place(f *plan.Facts) (err error) {
	c := &x.runner.config
	switch {
	case c.has(WorkspaceRootPreset):
		f.System, err = host.WorkspaceSystem()
	case c.has(StrictPreset):
		f.System, f.ResolvConf, err = host.System()
	}
	if err != nil {
		return err
	}
	f.VarTmp, f.Run = host.PrivatePlaces()
	if f.Devices, err = host.Devices(c.Devices); err != nil {
		return err
	}
	if c.layered() {
		if f.Table, err = mounts.ReadMountinfo(); err != nil {
			return err
		}
	}
	f.HomeAt, f.HomePerm, f.HomeErr = host.HomeAt(f.Home)
	if x.homes[0].at = f.HomeAt; f.HomeAt != f.Home {
		f.HomeWay, _ = host.Way(f.Home)
	}
	return nil
}

// addFolders adds the folders that are not part of a session, and the playground.
func (x *Execution) addFolders(f *plan.Facts) error {
	c := &x.runner.config
	in, err := x.inPlace.near()
	if err != nil {
		return err
	}
	f.InPlace, f.Unguarded = in.Plan, in.Unguarded
	x.later = host.NewLater(f.Folders.Direct, in)
	for _, dir := range f.Folders.ReadOnly {
		m, err := host.Bind(dir, false)
		if err != nil {
			return &Error{plan.OpUse, dir, sys.Bare(err)}
		}
		f.Shown = append(f.Shown, m)
	}
	if c.has(BuildPreset) {
		if f.Builds, err = host.Builds(f.Home, c.caches()); err != nil {
			return err
		}
	}
	if f.Table == nil && c.playground() {
		f.Table, f.Playground.Err = mounts.ReadMountinfo()
	}
	if !c.layered() && len(f.Folders.Direct) > 0 {
		x.addRootCaches(f, f.Folders.Direct, "")
	}
	if !c.layered() && f.Layer == nil && len(f.Folders.Direct) > 0 && !c.small() && !x.landlock && !x.plainCaches {
		// Not the place that variables name if there is no cache: an existing cache is useful.
		for _, dir := range host.Caches(f.Home, c.caches(), f.Folders.Direct, "", f.Table) {
			f.Caches = append(f.Caches, mounts.TmpOverlay(dir, dir))
		}
	}
	if c.playground() && f.Playground.Err == nil {
		project := f.Folders.Project
		if project == "" && c.Session+c.On != "" && f.Session != nil {
			project = f.Session.Roots[0] // whose playground commands of that session had
		}
		f.Playground = host.FindPlayground(host.PlaygroundQuery{
			Dir: c.Playground, Project: project, HomeAt: f.HomeAt, Table: f.Table, Mirror: x.mirrored, Create: !x.explain,
		})
		if x.playground = ""; f.Playground.Err == nil {
			x.playground = f.Playground.At
		}
	}
	return nil
}

// errHidesProject is about a rule that leaves commands without the directory that they are about.
var errHidesProject = errors.New("the command would not see its project: hide what is in it instead")

// seesProject returns an error about the rule that hides the project.
func seesProject(f *plan.Facts, box *plan.Sandbox) error {
	dir := f.Folders.Project
	if dir == "" || pathrule.Verdict(box.Rules, dir) != pathrule.Block {
		return nil
	}
	last := len(box.Rules) - 1
	for last > 0 && pathrule.Verdict(box.Rules[:last], dir) == pathrule.Block {
		last--
	}
	if last >= len(f.Rules) {
		return &plan.RuleError{Asked: true, Index: last - len(f.Rules), Err: errHidesProject}
	}
	return &plan.RuleError{Index: last, Err: errHidesProject}
}

// matchRules starts to match rules, which for patterns can take a walk through the project. The returned function waits
// for the result.
func (x *Execution) matchRules(home string, suspect func(dir string) bool) func() [2][]host.Matched {
	rules := [2][]Rule{x.runner.config.Rules, x.request.Paths}
	if len(rules[0])+len(rules[1]) == 0 {
		return func() (none [2][]host.Matched) { return none }
	}
	inPlace := x.runner.config.inPlace(x.request.Paths)
	match := sync.OnceValue(func() (m [2][]host.Matched) {
		for i, list := range rules {
			m[i] = host.Match(hostRules(list, inPlace), home, i == 1, suspect)
		}
		return m
	})
	go match()
	return match
}

// addRules adds the paths of rules and of allowed sockets.
func (x *Execution) addRules(f *plan.Facts, matched [2][]host.Matched, suspect func(dir string) bool) (err error) {
	c := &x.runner.config
	q := host.RuleQuery{Hidden: slices.Concat(f.Secrets, f.Sockets), Suspect: suspect, Git: c.has(GitPreset), Direct: f.Folders.Direct}
	for i, to := range [...]*[]plan.Rule{&f.Rules, &f.Paths} {
		q.Asked = i == 1
		var in host.InPlace
		if *to, in, err = host.Rules(matched[i], q); err != nil {
			return err
		}
		x.later.Add(&in)
		blocks := slices.ContainsFunc(*to, func(r plan.Rule) bool { return r.Access == plan.Block })
		if !blocks {
			continue
		}
		if err = host.InCopies(*to, x.copies()); err != nil {
			return err
		}
		if f.Table == nil {
			if f.Table, err = mounts.ReadMountinfo(); err != nil {
				return err
			}
		}
	}
	x.later.Remember()
	for _, path := range c.AllowUnix {
		if path == AbstractSockets || service.Is(path) {
			continue
		}
		m, err := host.UnixSocket(path, suspect)
		if err != nil {
			return err
		}
		f.Unix = append(f.Unix, m)
	}
	return nil
}

// copies are the copies of folders that commands see in their place.
func (x *Execution) copies() (list []host.Copy) {
	if x.session == nil || x.session.Info().Engine != overlay.EngineCopy {
		return nil
	}
	for _, r := range x.session.Roots() {
		list = append(list, host.Copy{Path: r.Path, At: r.Upper})
	}
	return list
}

// cancelDelay is how long a command may take to end after it was asked to.
const cancelDelay = 2 * time.Second

func (x *Execution) grace() time.Duration { return cmp.Or(x.runner.config.Grace, cancelDelay) }

// limit starts the command's time limit, once: copying a project counts, too.
func (x *Execution) limit() {
	if x.ctx != nil {
		return
	}
	x.ctx, x.timeout = x.parent, x.runner.config.Timeout
	if t := x.request.Timeout; t > 0 && (x.timeout <= 0 || t < x.timeout) {
		x.timeout = t
	}
	if x.timeout > 0 {
		x.ctx, x.cancel = context.WithDeadline(x.parent, x.deadline())
	}
}

// deadline is when the time limit is reached. In some centuries the kernel's clock has no nanoseconds left.
func (x *Execution) deadline() time.Time { return x.began.Add(min(x.timeout, 100*365*24*time.Hour)) }

// command makes the command; roots are those of the session.
func (x *Execution) command(spec Spec, roots []string) error {
	cmd := spec.CommandContext(x.ctx, x.args[0], x.args[1:]...)
	landlock := x.landlock
	if landlock {
		if err := x.attachConfinement(cmd); err != nil {
			return err
		}
	}
	sandbox.Of(cmd).LeaveMounts = x.work == nil // else the next command's overlay has the same upper directory: the project
	sandbox.Of(cmd).MaskedProc = !landlock
	sandbox.Of(cmd).Scripts = true
	sandbox.Of(cmd).CountUnsent = !landlock && x.net == nil && !x.request.Network
	if x.session != nil {
		cmd.Layers = x.session.Layers()
	}
	if err := x.ownIDs(cmd); err != nil {
		return err
	}
	// Like timeout(1): a request first, and SIGKILL after the delay.
	if x.timeout > 0 {
		sandbox.Of(cmd).Deadline = x.deadline()
	}
	cmd.Cancel = func() error {
		if x.parent.Err() == nil { // PID 1 asks, and keeps the time even where this program is stopped
			err := cmd.Signal(syscall.Signal(0))
			x.canceled.Store(err == nil)
			return err
		}
		err := cmd.Signal(syscall.SIGTERM)
		if err == nil {
			x.canceled.Store(true)
		}
		return err
	}
	cmd.WaitDelay = x.grace()
	deny := cmd.Seccomp[0]
	if x.overlays(roots) {
		deny = renames.Deny(deny)
		cmd.Seccomp = []nsexec.Filter{deny}
	}
	x.keepMessages(cmd)
	x.rename(cmd, roots, deny)
	if x.endObserved(); x.runner.config.Why && !x.explain {
		if err := x.observe(cmd, deny); err != nil {
			return err
		}
	}
	if x.net != nil {
		x.net.attach(cmd)
	}
	x.addGateways(cmd)
	if !x.explain {
		if err := x.confine(cmd); err != nil {
			return err
		}
	}
	if landlock {
		x.cmd = cmd
		return x.inPlace.gate()
	}
	// A session's tmpfs can be attached in one sandbox only.
	once := x.session != nil && len(x.session.Layers()) > 0
	gate, err := x.sockets.gate(roots, once)
	if err == nil && once {
		err = x.inPlace.gate()
	}
	if err != nil {
		return err
	}
	if inPlace := x.inPlace; gate != nil || inPlace != nil {
		sandbox.Of(cmd).Gate = func() error {
			if err := inPlace.gate(); err != nil || gate == nil {
				return err
			}
			return gate()
		}
	}
	x.cmd = cmd
	return nil
}

// openNetwork starts to prepare network rules, if there are any. The returned function waits for that.
func (x *Execution) openNetwork() func() error {
	x.net.close()
	x.net = nil
	if !x.runner.config.byRules(&x.request) {
		return func() error { return nil }
	}
	var err error
	opened := make(chan *network, 1)
	go func() {
		var n *network
		n, err = x.runner.openNetwork(&x.request, x.landlock, x.explain)
		opened <- n
	}()
	return sync.OnceValue(func() error {
		x.net = <-opened
		return err
	})
}
