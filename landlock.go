//go:build linux

package nsrun

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/wall"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// confined is what a command without namespaces has.
type confined struct {
	temp   *host.WorkDir // for temporary files
	deputy *wall.Deputy
	box    plan.Confined
}

// landlock reports whether commands run without namespaces.
func (r *Runner) landlock() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config.Backend == LandlockBackend || r.config.Backend == AutoBackend && r.noNamespaces
}

// takesNamespaces names what the command asks for and cannot have without namespaces. Empty: nothing.
func (x *Execution) takesNamespaces() string {
	c, q := &x.runner.config, &x.request
	switch {
	case c.has(WorkspaceRootPreset):
		return "the preset workspace-root"
	case len(c.Publish) > 0:
		return "publishing ports"
	case q.LearnNet:
		return "finding out what the network is used for"
	case c.byRules(q) && c.Enforcer == KernelEnforcer:
		return "rules that the kernel enforces"
	case c.byRules(q) && slices.ContainsFunc(c.Net.Rules, func(r netpolicy.Rule) bool { return r.Proto == netpolicy.UDP }):
		return "rules for UDP"
	case slices.ContainsFunc(c.AllowUnix, func(path string) bool { return path != AbstractSockets }), q.Network && len(c.AllowUnix) > 0:
		return "a unix socket of the host, or a service"
	case len(c.Credentials) > 0:
		return "a credential"
	case c.Engine != 0 && c.Engine != overlay.EngineCopy:
		return "the engine " + c.Engine.String()
	case c.UserNamespaces:
		return "user namespaces in the sandbox"
	case c.OwnIDs:
		return "own ids"
	case c.Why:
		return "finding out why something is refused"
	}
	return ""
}

// needsNamespaces reports whether a flag asks for something that takesNamespaces names.
func needsNamespaces(flag string) bool {
	name, value, _ := strings.Cut(flag, " ")
	switch name {
	case "--allow-unix", "--allow-userns", "--own-ids", "--publish", "--learn-net", "--credential":
		return true
	case "--allow-net":
		return strings.HasPrefix(value, netpolicy.UDP.String()+":")
	}
	return false
}

// withoutFlags takes from refusals the flags that this command cannot have, or that would not help it.
func (x *Execution) withoutFlags(list []Refusal) {
	for i := range list {
		r := &list[i]
		switch {
		case !x.landlock || r.Flag == "":
			continue
		case needsNamespaces(r.Flag):
			r.Why += "; " + r.Flag + " needs namespaces (--backend native)"
		case r.flag == "--rw" && x.holdsOthers(r.value):
			r.Why += "; " + r.Flag + " would not help without namespaces (--backend native), because something in that directory stays read-only or hidden"
		default:
			continue
		}
		r.Flag, r.flag, r.value = "", "", ""
	}
}

// holdsOthers reports whether something in a directory stays read-only or hidden if the directory becomes writable.
// Landlock then allows nothing new in it.
func (x *Execution) holdsOthers(dir string) bool {
	for i := range x.box.Mounts {
		if m := &x.box.Mounts[i]; m.Covers() && m.Target != dir && paths.Inside(m.Target, dir) && (m.ReadOnly || m.Kind == mounts.KindBlock || plan.Hole(m)) {
			return true
		}
	}
	in, err := searchInPlace([]string{dir}, false, true).near()
	return err == nil && len(in.Plan) > 1
}

func errNamespaces(what string) error {
	remedy := "the backend native"
	if a := nativeAvailability(features.Get); a.Status == NotSupported {
		remedy = a.Remedy
	}
	return &Error{Op: "run without namespaces", Err: errors.New("namespaces are needed for " + what + " (try: " + remedy + ")")}
}

var landlockFeatures = [...]features.Name{
	features.DirectCalls, features.Proc, features.LandlockScopes, features.SeccompFilters, features.Capset, features.SeccompNotification,
	features.Openat2, features.CloseRange, features.Statx,
}

// landlockError says why LandlockBackend does not work on this machine. Nil: it works.
func landlockError() error {
	for _, name := range landlockFeatures {
		if f := features.Get(name); f.Status == features.No {
			return f.Err()
		}
	}
	return nil
}

// fallsBack reports whether err says that this machine refuses namespaces, and whether LandlockBackend works for the
// commands of this Runner. The command must not have been executed.
func (x *Execution) fallsBack(err error) bool {
	r := x.runner
	if r.config.Backend != AutoBackend || x.landlock || !refusesNamespaces(err) || landlockError() != nil {
		return false
	}
	r.mu.Lock()
	r.noNamespaces = true
	r.mu.Unlock()
	return true
}

// refusesNamespaces reports whether an error of a start says that there are no namespaces. Many calls can return such
// errors, so it tests the kernel once more, except for the call that only makes namespaces.
func refusesNamespaces(err error) bool {
	killed, _ := errors.AsType[*nsexec.KilledError](err)
	filtered := killed != nil && killed.Signal == syscall.SIGSYS
	if !filtered && !slices.ContainsFunc([]syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOSYS, syscall.EINVAL, syscall.ENOSPC, syscall.EUSERS, syscall.EROFS},
		func(e syscall.Errno) bool { return errors.Is(err, e) }) && !errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	if usedUp(err) {
		return false
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepClone && errors.Is(err, syscall.EPERM) {
		return true
	}
	return nativeAvailability(features.Get).Status == NotSupported
}

// usedUp reports whether an error says that somebody has used up all namespaces that a limit allows. Whoever did may be
// after a sandbox with weaker walls, or none.
func usedUp(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS)) && !sys.NoNamespaces()
}

// holdApart enforces the plan without namespaces.
func (x *Execution) holdApart(spec *Spec, box *plan.Sandbox, temp string) (err error) {
	if x.walled.box, err = box.Confine(temp, host.Files()); err != nil {
		return err
	}
	if x.walled.box.Home != "" && !x.explain {
		if err := sys.MkdirAll(x.walled.box.Home, 0o700); err != nil {
			return err
		}
	}
	spec.Mounts, spec.Share = nil, nsexec.All
	spec.Dir, spec.Env = x.walled.box.Dir, x.walled.box.Env
	spec.Seccomp = []nsexec.Filter{nsexec.DefaultFilter(), wall.Filter(wall.Options{Network: x.request.Network, Loopback: !x.request.Network})}
	x.noteConfined()
	return nil
}

// plannedTemp stands for the directory for temporary files if none is made.
const plannedTemp = "/tmp/TEMP"

// noteConfined says how the command runs.
func (x *Execution) noteConfined() {
	home := ""
	if x.runner.config.keepsHome() {
		home = ", no home layer"
	}
	text := "Landlock protects files and processes; the command has no private /tmp" + home + " and no PID namespace"
	if x.runner.config.Backend == AutoBackend {
		text = "this host allows no namespaces: " + text
	}
	x.notices = append(x.notices, Notice{Kind: NoticeBackend, Text: text})
	if x.session != nil {
		for _, r := range x.session.Roots() {
			x.notices = append(x.notices, Notice{Kind: NoticeBackend, Path: r.Path,
				Text: "the command works in a copy: " + escape.Quote(r.Path) + " is at " + escape.Quote(x.walled.box.Path(r.Path))})
		}
	}
	if text := x.walled.box.Notice(); text != "" {
		x.notices = append(x.notices, Notice{Kind: NoticeBackend, Text: text})
	}
}

// attachConfinement gives a command its rules, and the deputy that changes files for it.
func (x *Execution) attachConfinement(cmd *nsexec.Cmd) error {
	box := &x.walled.box
	o := sandbox.Of(cmd)
	o.Confinement = &sandbox.Confinement{Files: box.Files.Root, NoConnect: !x.request.Network}
	x.walled.deputy.Close() // of an attempt before
	x.walled.deputy = &wall.Deputy{
		Loopback: !x.request.Network, Temp: box.Temp,
		May:  func(path string) bool { return box.Marks.Access(path) == confine.Write },
		Seen: func(path string) bool { return box.Marks.Access(path) != confine.None },
	}
	if x.net != nil {
		x.walled.deputy.Outside = x.net.outside
	}
	if x.explain {
		o.Supervisor = &sandbox.Supervisor{Filter: wall.Notified(!x.request.Network), Seal: wall.Nothing()}
		return nil
	}
	return x.walled.deputy.Attach(o)
}

// openApart makes what a command without namespaces needs.
func (x *Execution) openApart() (err error) {
	if what := x.takesNamespaces(); what != "" {
		return errNamespaces(what)
	}
	if err := landlockError(); err != nil {
		return err
	}
	if x.explain || x.walled.temp != nil {
		return nil
	}
	x.runner.temps.Do(func() { go host.RemoveTemps() })
	x.walled.temp, err = host.NewTemp()
	return err
}

// endApart closes what openApart and attachConfinement made. No process of the command runs any more.
func (x *Execution) endApart() {
	x.walled.deputy.Close()
	x.walled.temp.Close()
	x.walled.temp = nil
}

// withoutNamespaces are the features that a command without namespaces has to do without.
func (x *Execution) withoutNamespaces() []features.Name {
	list := []features.Name{
		features.UserNamespaces, features.MountNamespaces, features.NetworkNamespaces, features.ProcessNamespaces, features.OwnProc,
		features.IPCNamespaces, features.CgroupNamespaces,
	}
	if x.session != nil && x.runner.config.Engine == 0 {
		list = append(list, features.Overlay)
	}
	return list
}
