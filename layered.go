//go:build linux

package nsrun

import (
	"cmp"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay"
)

// addSession opens the session of a command, or only describes it, and adds it to the facts.
func (x *Execution) addSession(f *plan.Facts, engine overlay.Engine) error {
	if x.explain {
		return x.explainSession(f)
	}
	if x.session == nil {
		if err := x.openSession(f.Folders.Overlay, engine); err != nil {
			return err
		}
		if err := x.copyOtherGroup(f.Folders.Overlay); err != nil {
			return err
		}
	}
	s := &plan.Session{Mounts: x.session.Mounts(), Unmapped: x.session.Unmapped()}
	for _, root := range x.session.Roots() {
		s.Roots = append(s.Roots, root.Path)
	}
	if err := plan.Whole(s.Roots, f.Table); err != nil {
		return err
	}
	if err := host.MakeOwn(f.Own, s.Roots); err != nil {
		return err
	}
	if err := x.addHomeLayer(f, s.Roots); err != nil {
		return err
	}
	x.addRootCaches(f, s.Roots, x.session.Dir())
	if x.runner.config.small() || f.Layer != nil || x.landlock {
		f.Session = s
		return nil // caches are in the home directory, which is not there, or can be written to, or no layer can be laid over them
	}
	for _, dir := range host.Caches(f.Home, x.runner.config.caches(), s.Roots, x.session.Dir(), f.Table) {
		m, err := x.session.Scratch(dir)
		if err != nil {
			return err
		}
		f.Caches = append(f.Caches, m)
	}
	f.Session = s
	return nil
}

// copyOtherGroup makes the command work on a copy of a project that belongs to a group which the sandbox does not have:
// in an overlay its files could not be changed.
func (x *Execution) copyOtherGroup(roots []string) error {
	c := &x.runner.config
	if x.resumed || c.Session+c.On != "" || c.Engine != 0 || len(x.session.Unmapped()) == 0 {
		return nil
	}
	if err := x.session.Remove(); err != nil {
		return err
	}
	x.session = nil
	return x.openSession(roots, overlay.EngineCopy)
}

// explainSession is addSession without making anything.
func (x *Execution) explainSession(f *plan.Facts) error {
	c := &x.runner.config
	layer := func(i int) (upper, work string) {
		n := strconv.Itoa(i + 1)
		return "/SESSION/upper/overlay" + n, "/SESSION/work/overlay" + n
	}
	f.Session = &plan.Session{}
	id := c.Session + c.On
	if id == "" {
		copies := cmp.Or(c.Engine, x.runner.lastEngine()) == overlay.EngineCopy
		for i, root := range f.Folders.Overlay {
			upper, work := layer(i)
			m := mounts.Overlay(root, upper, work, root)
			if copies || x.landlock {
				m = mounts.Bind(upper, root)
			}
			f.Session.Mounts = append(f.Session.Mounts, m)
		}
		f.Session.Roots = f.Folders.Overlay
		if err := x.explainCaches(f, copies); err != nil {
			return err
		}
		return plan.Whole(f.Session.Roots, f.Table)
	}
	s, err := overlay.OpenReadOnly(c.StateDir, id)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, m := range s.Mounts() {
		if c.On != "" {
			m.Lower = append([]string{m.Upper}, m.Lower...)
			m.Upper, m.Work = layer(i)
		}
		f.Session.Mounts = append(f.Session.Mounts, m)
	}
	for _, root := range s.Roots() {
		f.Session.Roots = append(f.Session.Roots, root.Path)
	}
	return x.explainCaches(f, s.Info().Engine == overlay.EngineCopy)
}

// addRootCaches adds caches of user root that are not below the home directory. A command sees what they have, and what
// it writes there is gone afterwards.
func (x *Execution) addRootCaches(f *plan.Facts, roots []string, session string) {
	c := &x.runner.config
	if os.Geteuid() != 0 || c.OwnIDs || c.small() || x.landlock || x.plainCaches {
		return
	}
	for _, dir := range host.RootCaches(roots, session, f.Table) {
		f.Caches = append(f.Caches, mounts.TmpOverlay(dir, dir))
	}
}

// explainCaches adds the caches that the session would show through overlays, if asked to; copies says that it keeps
// its changes in a copy.
func (x *Execution) explainCaches(f *plan.Facts, copies bool) error {
	err := x.addHomeLayer(f, f.Session.Roots)
	if err == nil && x.caches {
		x.addRootCaches(f, f.Session.Roots, "")
	}
	if err != nil || !x.caches || f.Layer != nil || x.runner.config.has(StrictPreset) || x.landlock || x.plainCaches {
		return err
	}
	for _, dir := range host.Caches(f.Home, x.runner.config.caches(), f.Session.Roots, "", f.Table) {
		m := mounts.TmpOverlay(dir, dir)
		if copies {
			m = mounts.ROBind(dir, dir) // as overlay.Session.Scratch has it
		}
		f.Caches = append(f.Caches, m)
	}
	return nil
}

// openSession begins a session, or continues one.
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
		x.session, err = overlay.CreateContext(x.ctx, overlay.Options{Roots: roots, Command: x.args, Dir: c.StateDir, On: c.On, Engine: max(engine, c.Engine), Spare: x.runner.clearings.spare(), Protect: c.protected(host.Home())})
		if err != nil {
			return err
		}
		for i, root := range x.session.Roots() {
			if root.Path != roots[i] { // which is free of links, and was looked up once more
				return &Error{plan.OpUse, roots[i], host.ErrElse}
			}
		}
		return nil
	}
	s, err := overlay.Open(c.StateDir, c.Session)
	if err != nil {
		return err
	}
	if protected := c.protected(host.Home()); len(protected) > 0 {
		err = s.Protect(protected...)
	}
	if err == nil {
		err = s.ResumeContext(x.ctx, x.args)
	}
	if err != nil {
		_ = s.Close()
		return err
	}
	x.session, x.resumed = s, true
	return nil
}
