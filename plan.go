//go:build linux

package nsrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

const (
	errNotDir = syscall.ENOTDIR
	errAccess = syscall.EACCES
)

// cancelDelay is how long a command has after it was asked to end.
const cancelDelay = 2 * time.Second

// prepare makes the session, if there is none yet, and the command. What lies over what
// matters: the host, caches, folders, the playground, secrets, rules, and over all of it
// what is nsrun's own.
func (x *Execution) prepare(engine overlay.Engine) error {
	x.limit()
	c := &x.runner.config
	home := host.Home()
	if home == "" {
		return errors.New("find home directory: neither /etc/passwd nor HOME has one, and secrets below it could not be hidden")
	}
	suspect := c.suspect(x.request.Paths)
	f, err := c.folders(suspect)
	if err != nil {
		return err
	}
	x.notices, x.direct = f.notices, f.direct
	network := x.openNetwork()
	defer func() { _ = network() }() // where another error comes first
	// What has to be hidden is looked for while the session and the network are made.
	hidden := make(chan hiding, 1)
	direct := func() (host.InPlace, error) { return host.InPlace{}, nil }
	if len(f.direct) > 0 {
		direct = sync.OnceValues(func() (host.InPlace, error) { return host.DirectMounts(f.direct, c.Preset == GitPreset) })
		go direct() // git's files are read meanwhile
	}
	sockets := x.lookForSockets(c.binds(&f, &x.request))
	go func() {
		secrets, absent := host.Secrets(home)
		secrets, linked := host.ThroughLinks(secrets)
		hidden <- hiding{secrets: secrets, linked: linked, absent: absent}
	}()
	if err := c.keepsState(f.overlay); err != nil {
		return err
	}
	plan := BaseMounts()
	var table []mounts.Info
	if err := x.makeOwn(home, f.overlay); err != nil {
		return err
	}
	layered := c.layered()
	if layered {
		if table, err = mounts.ReadMountinfo(); err != nil {
			return err
		}
		over, err := x.overlays(f.overlay, home, table, engine)
		if err != nil {
			return err
		}
		plan = append(plan, over...)
	}
	if x.session != nil {
		for _, root := range x.session.Unmapped() {
			x.notices = append(x.notices, "group of "+escape.Quote(root)+" does not exist in the sandbox: what belongs to it cannot be changed in an overlay")
		}
	}
	x.notices = append(x.notices, host.OthersFolders(f.overlay, f.direct)...)
	in, err := direct()
	if err != nil {
		return err
	}
	plan = append(plan, in.Plan...)
	x.later = later{dirs: f.direct, watched: f.direct, paths: in.Later, known: in.Known}
	x.notices = append(x.notices, in.Notices...)
	for _, dir := range f.readOnly {
		m, err := host.Bind(dir, false)
		if err != nil {
			return &Error{opUse, dir, host.Bare(err)}
		}
		plan = append(plan, m)
	}
	if c.Preset == BuildPreset {
		builds, err := buildMounts(home)
		if err != nil {
			return err
		}
		plan = append(plan, builds...)
	}
	playground := ""
	if !c.NoPlayground {
		plan, playground, err = c.addPlayground(plan, home, x.playgroundOf(&f), x.runner.mirrors(), !x.explain, table)
		if err != nil {
			x.notices = append(x.notices, "no playground: "+err.Error())
		}
	}
	for _, dir := range f.blocked {
		plan = append(plan, mounts.Block(dir))
	}
	hide := <-hidden
	hide.sockets = <-sockets
	private := c.private(home, playground)
	for _, m := range hide.secrets {
		if !slices.Contains(private, m.Target) { // which is hidden below
			plan = append(plan, m)
		}
	}
	for _, m := range hide.sockets {
		shown := func(dir string) bool { return links.Inside(m.Target, dir) }
		switch {
		case x.session != nil && within(x.session, m.Target): // its copy in an overlay leads nowhere
		case !host.InPrivatePlace(m.Target), slices.ContainsFunc(f.direct, shown), slices.ContainsFunc(f.readOnly, shown):
			plan = append(plan, m)
		}
	}
	for i, rules := range [...][]Rule{c.Rules, x.request.Paths} {
		in, err := ruleMounts(rules, i > 0, slices.Concat(hide.secrets, hide.sockets), suspect, c.Preset == GitPreset)
		if err != nil {
			return err
		}
		plan = append(plan, in.Plan...)
		x.later.add(&in)
		x.notices = append(x.notices, in.Notices...)
	}
	x.later.remember()
	if err := x.staysHidden(hide.linked, plan, f.overlay); err != nil {
		return err
	}
	for _, path := range c.AllowUnix {
		if path == AbstractSockets {
			continue
		}
		m, err := unixMount(path, suspect)
		if err != nil {
			return err
		}
		plan = append(plan, m)
	}
	if err := network(); err != nil {
		return err
	}
	spec := Spec{}
	switch {
	case x.request.Network:
		spec.Share |= nsexec.Net
		spec.AbstractSockets = slices.Contains(c.AllowUnix, AbstractSockets)
		plan = append(plan, mounts.ROBind("/run/systemd/resolve", "/run/systemd/resolve").Try())
	case x.net != nil:
		plan = append(plan, x.net.mounts...)
	}
	// Sessions, and what else is ours, are no business of what runs in one, whatever the
	// rules say.
	for _, dir := range private {
		if err := keepOut(dir, playground, plan); err != nil {
			return err
		}
		plan = append(plan, mounts.Block(dir))
	}
	first := ""
	switch {
	case x.session != nil:
		first = x.session.Roots()[0].Path
	case len(x.explained) > 0:
		first = x.explained[0]
	}
	for _, list := range [...][]string{f.direct, f.readOnly} {
		if first == "" && len(list) > 0 {
			first = list[0]
		}
	}
	if f.project != "" {
		first = f.project
	}
	x.dir = workingDir(x.request.WorkingDir, first, home, playground != "")
	spec.Mounts, spec.Dir = hideLater(plan, home, hide.absent), x.dir
	spec.Env = c.environment(&x.request, home, x.dir, otherCaches(plan, home))
	return x.command(spec)
}

// playgroundOf is whose playground commands have: the project's, or that of the first root
// of a session that is gone on with.
func (x *Execution) playgroundOf(f *folders) string {
	c := &x.runner.config
	if f.project == "" && (c.Session != "" || c.On != "") {
		switch {
		case x.session != nil:
			return x.session.Roots()[0].Path
		case len(x.explained) > 0:
			return x.explained[0]
		}
	}
	return f.project
}

// hiding is what is hidden in any case.
type hiding struct {
	secrets, sockets mounts.Plan
	linked           []string      // names of secrets that lead through symbolic links
	absent           []host.Absent // names below the home directory that must not come up
}

// limit begins the command's time, once: a project that has to be copied takes of it.
func (x *Execution) limit() {
	if x.ctx != nil {
		return
	}
	x.ctx, x.timeout = x.parent, x.runner.config.Timeout
	if t := x.request.Timeout; t > 0 && (x.timeout <= 0 || t < x.timeout) {
		x.timeout = t
	}
	if x.timeout > 0 {
		x.ctx, x.cancel = context.WithDeadline(x.parent, x.began.Add(x.timeout))
	}
}

// command makes the command.
func (x *Execution) command(spec Spec) error {
	cmd := spec.CommandContext(x.ctx, x.args[0], x.args[1:]...)
	sandbox.Of(cmd).CountUnsent = x.net == nil && !x.request.Network
	if x.session != nil {
		cmd.Layers = x.session.Layers()
	}
	// As timeout(1): a request first, and no patience after that.
	if x.timeout > 0 {
		sandbox.Of(cmd).Deadline = x.began.Add(x.timeout)
	}
	cmd.Cancel = func() error {
		if x.parent.Err() == nil { // PID 1 asks, and keeps the time even where this program is stopped
			err := cmd.Process.Signal(syscall.Signal(0))
			x.canceled.Store(err == nil)
			return err
		}
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err == nil {
			x.canceled.Store(true)
		}
		return err
	}
	cmd.WaitDelay = cancelDelay
	if x.net != nil {
		x.net.attach(cmd)
	}
	if !x.looked {
		select {
		case sockets := <-x.distant:
			if err := x.foundMore(sockets); err != nil {
				return err
			}
		default:
			sandbox.Of(cmd).Gate = x.moreSockets
		}
	}
	x.cmd = cmd
	return nil
}

// overlays are the caches, and the folders with an overlay.
func (x *Execution) overlays(roots []string, home string, table []mounts.Info, engine overlay.Engine) (plan mounts.Plan, err error) {
	if x.explain {
		return x.explainOverlays(roots, table)
	}
	if x.session == nil {
		if err := x.openSession(roots, engine); err != nil {
			return nil, err
		}
	}
	for _, root := range x.session.Roots() {
		if sub := host.MountBelow(table, root.Path); sub != "" {
			return nil, &MountError{root.Path, sub}
		}
		if err := x.makeOwn(home, []string{root.Path}); err != nil {
			return nil, err
		}
	}
	if plan, err = cacheMounts(x.session, home, table); err != nil {
		return nil, err
	}
	return append(plan, x.session.Mounts()...), nil
}

// keepsState refuses roots that hold the state directory, as a new session would: but before anything is made.
func (c *Config) keepsState(roots []string) error {
	if len(roots) == 0 {
		return nil
	}
	state, err := c.StateDir, error(nil)
	if state == "" {
		state, err = overlay.DefaultDir()
	} else {
		state, err = filepath.Abs(state)
	}
	if err != nil {
		return err
	}
	at := host.Nearest(state)
	for _, root := range roots {
		if root != "/" && links.Inside(at, root) { // the whole file system is no root in any case, and the session says so
			return &overlay.Error{Op: "use as project", Path: root, Err: fmt.Errorf("it holds the state directory %s", escape.Quote(state))}
		}
	}
	return nil
}

// explainOverlays is overlays without making anything.
func (x *Execution) explainOverlays(roots []string, table []mounts.Info) (plan mounts.Plan, err error) {
	c := &x.runner.config
	layer := func(i int) (upper, work string) {
		n := strconv.Itoa(i + 1)
		return "/SESSION/upper/overlay" + n, "/SESSION/work/overlay" + n
	}
	id := c.Session + c.On
	if id == "" {
		for i, root := range roots {
			if sub := host.MountBelow(table, root); sub != "" {
				return nil, &MountError{root, sub}
			}
			upper, work := layer(i)
			plan = append(plan, mounts.Overlay(root, upper, work, root))
			x.explained = append(x.explained, root)
		}
		return plan, nil
	}
	s, err := overlay.OpenReadOnly(c.StateDir, id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for i, m := range s.Mounts() {
		if c.On != "" {
			m.Lower = append([]string{m.Upper}, m.Lower...)
			m.Upper, m.Work = layer(i)
		}
		plan = append(plan, m)
	}
	for _, root := range s.Roots() {
		x.explained = append(x.explained, root.Path)
	}
	return plan, nil
}

// openSession begins a session, or goes on with one.
func (x *Execution) openSession(roots []string, engine overlay.Engine) (err error) {
	c := &x.runner.config
	if c.On != "" && len(roots) == 0 {
		s, err := overlay.OpenReadOnly(c.StateDir, c.On)
		if err != nil {
			return err
		}
		for _, root := range s.Roots() {
			roots = append(roots, root.Path)
		}
		_ = s.Close()
	}
	if c.Session == "" {
		x.session, err = overlay.CreateContext(x.ctx, overlay.Options{Roots: roots, Command: x.args, Dir: c.StateDir, On: c.On, Engine: max(engine, c.Engine), Spare: x.runner.clearings.spare()})
		if err != nil {
			return err
		}
		for i, root := range x.session.Roots() {
			if root.Path != roots[i] { // which is free of links, and was looked up once more
				return &Error{opUse, roots[i], errElse}
			}
		}
		return nil
	}
	s, err := overlay.Open(c.StateDir, c.Session)
	if err != nil {
		return err
	}
	if err := s.ResumeContext(x.ctx, x.args); err != nil {
		_ = s.Close()
		return err
	}
	x.session, x.resumed = s, true
	return nil
}

// private are the directories that commands have no business in.
func (c *Config) private(home, playground string) (dirs []string) {
	if c.StateDir != "" {
		dirs = append(dirs, c.StateDir)
	}
	if state, err := overlay.DefaultDir(); err == nil {
		dirs = append(dirs, filepath.Dir(state))
	}
	data := host.DataDir(home)
	for _, dir := range [...]string{data, host.CacheDir(home)} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range c.registries() {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if playground != "" && (data == "" || !links.Inside(playground, data)) {
		dirs = append(dirs, playground)
	}
	return dirs
}

// makeOwn makes the directories of ours that are missing and would lie in a root of a
// session: only what is there can be hidden, and a command that made one itself, with a
// registry of its own in it, would have it in place after a commit.
func (x *Execution) makeOwn(home string, roots []string) error {
	if x.explain {
		return nil
	}
	for _, dir := range x.runner.config.private(home, "") {
		at := host.Nearest(dir)
		for _, root := range roots {
			if at == dir || !links.Inside(at, root) {
				continue
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return &Error{"make directory", dir, host.Bare(err)}
			}
		}
	}
	return nil
}

// keepOut refuses to make writable what holds a directory of ours: it could be moved
// away, and another one put in its place.
func keepOut(dir, playground string, plan mounts.Plan) error {
	real := ""
	if playground != "" && dir != playground && links.Inside(dir, playground) {
		return fmt.Errorf("the playground %s would have the directory %s in it", escape.Quote(playground), escape.Quote(dir))
	}
	for _, m := range plan {
		if m.Kind != mounts.KindBind || m.ReadOnly || filepath.Base(m.Target) == host.PlaygroundName && m.Source != m.Target {
			continue
		}
		if m.Target == filepath.Dir(dir) && holdsCopies(dir) && host.Nearest(dir) == dir {
			continue // ~/.cache: what is hidden in it is a mount point, which cannot be moved
		}
		if real == "" {
			real = host.Nearest(dir)
		}
		if links.Inside(real, m.Target) || links.Inside(dir, m.Target) {
			return fmt.Errorf("%s would be writable, and nsrun's directory %s with it", escape.Quote(m.Target), escape.Quote(dir))
		}
	}
	return nil
}

// holdsCopies reports whether dir is where backups are kept by default. It is there then: only
// what is there can be hidden.
func holdsCopies(dir string) bool {
	_, cache, err := project.DefaultDirs()
	if err != nil || dir != cache {
		return false
	}
	err = os.Mkdir(dir, 0o700)
	return (err == nil || errors.Is(err, os.ErrExist)) && host.IsDir(dir)
}

// workingDir is the directory that a request names.
func workingDir(name, project, home string, playground bool) string {
	switch {
	case name == "" && project != "":
		return project
	case name == "" && !playground:
		return "/"
	case name == "", name == host.PlaygroundName:
		return filepath.Join(home, host.PlaygroundName)
	}
	for _, prefix := range [...]string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') && home != "" {
			return filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(name) {
		return filepath.Join("/", project, name)
	}
	return name
}

// opensNothing refuses as standard input, output or error what is a way to more: a directory, through which
// the command could reach all that is below it; and a network socket, which is of the host's network
// whatever the command has, and which it could disconnect and connect to anybody.
func opensNothing(name string, file any, network bool) error {
	f, ok := file.(*os.File)
	if !ok || f == nil {
		return nil
	}
	var st unix.Stat_t
	domain := unix.AF_UNIX
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) {
			_ = unix.Fstat(int(fd), &st)
			if d, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
				domain = d
			}
		})
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%s is a directory", name)
	}
	if err == nil && domain != unix.AF_UNIX && !network {
		return fmt.Errorf("%s is a network socket, which can be connected to anybody: put a pipe in between", name)
	}
	return nil
}

// connect gives the command its standard descriptors.
func (x *Execution) connect() error {
	q, cmd := &x.request, x.cmd
	for _, s := range [...]struct {
		name string
		file any
	}{{"standard input", q.Stdin}, {"standard output", q.Stdout}, {"standard error", q.Stderr}} {
		if err := opensNothing(s.name, s.file, q.Network); err != nil {
			return err
		}
		if _, isFile := s.file.(*os.File); q.Passthrough && s.file != nil && !isFile {
			return &Error{Op: "run", Err: fmt.Errorf("%s is no file, and cannot be passed through", s.name)}
		}
	}
	if q.Passthrough {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = q.Stdin, q.Stdout, q.Stderr
		return nil
	}
	limit := x.runner.config.MaxOutput
	x.stdout = newCapture(limit, q.Stdout)
	cmd.Stdout = x.stdout
	if q.Merge {
		cmd.Stderr = x.stdout
	} else {
		x.stderr = newCapture(limit, q.Stderr)
		cmd.Stderr = x.stderr
	}
	if _, isFile := q.Stdin.(*os.File); isFile || q.Stdin == nil {
		cmd.Stdin = q.Stdin
		return nil
	}
	// Not left to nsexec, which waits for the reader.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin = r
	x.stdin = [2]*os.File{r, w}
	return nil
}

// feed copies to the command's standard input until either side has no more.
func feed(w *os.File, from io.Reader) {
	_, _ = io.Copy(w, from)
	_ = w.Close()
}
