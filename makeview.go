//go:build linux

package nsrun

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// View returns what the command of a Request would see and be allowed to do. It runs nothing.
func (r *Runner) View(ctx context.Context, q Request) (View, error) {
	x, err := r.planned(ctx, q)
	if err != nil {
		return View{}, err
	}
	defer x.unplan()
	c := &r.config
	v := View{Sandbox: c.Sandbox.String(), Command: x.args, Dir: x.dir, Timeout: x.timeout, Notices: x.notices, Publish: c.Publish, Sockets: slices.Clone(c.AllowUnix), Presets: c.presetNames(), UserNamespaces: c.userNamespaces(), OwnIDs: c.OwnIDs, Owners: x.owners, Devices: slices.Clone(c.Devices)}
	v.places(x.box.Mounts)
	for i, m := range x.box.Mounts {
		if at := slices.Index(v.Writable, m.Target); at >= 0 && x.box.Layers[i] == plan.SessionLayer { // a copy of it
			v.Writable, v.Apart = slices.Delete(v.Writable, at, at+1), append(v.Apart, m.Target)
		}
	}
	slices.Sort(v.Apart)
	for _, layered := range x.box.HomeLayers() {
		if layered == x.homes[0].at {
			v.Home = layered
		} else {
			v.OtherHome = layered
		}
		v.Apart = slices.DeleteFunc(v.Apart, func(path string) bool { return path == layered })
	}
	for _, gone := range x.box.Absent {
		v.Hidden = append(v.Hidden, gone.Path)
	}
	for _, path := range x.box.Later {
		if !paths.InAny(path, v.Hidden) {
			v.Hidden = append(v.Hidden, path)
		}
	}
	slices.Sort(v.Hidden)
	v.Hidden = slices.Compact(v.Hidden)
	switch {
	case x.request.Network:
		v.Network = "host"
	case x.request.LearnNet:
		v.Network = "all"
	case x.net != nil:
		v.Network = "rules"
	default:
		v.Network = "none"
	}
	for _, rule := range c.Net.Rules {
		v.Rules = append(v.Rules, rule.String())
	}
	for i := range c.Credentials {
		v.Credentials = append(v.Credentials, c.Credentials[i].Name())
	}
	v.environment(os.Environ(), x.cmd.Env)
	return v, nil
}

// places sorts the mounts by what they show. A mount over a directory covers everything that was below it.
func (v *View) places(list mounts.Plan) {
	lists := map[string]*[]string{}
	var order []string
	for _, m := range list {
		to := &v.ReadOnly
		if plan.Hole(&m) {
			m.Kind = mounts.KindBlock
		}
		switch m.Kind {
		case mounts.KindBlock:
			to = &v.Hidden
			if fi, err := os.Lstat(m.Target); err == nil && fi.Mode()&os.ModeSocket != 0 {
				to = &v.HiddenSockets
			}
		case mounts.KindBind, mounts.KindData:
			switch {
			case m.Devices:
				continue
			case !m.ReadOnly && m.Kind == mounts.KindBind:
				to = &v.Writable
			}
		case mounts.KindOverlay, mounts.KindLayer:
			if !m.ReadOnly {
				to = &v.Apart
			}
		case mounts.KindTmpfs, mounts.KindDev, mounts.KindProc, mounts.KindMqueue:
			if m.Target == "/" {
				continue // nothing is there but what is listed
			}
			to = &v.Private
		case mounts.KindRemount:
			if lists[m.Target] != nil && lists[m.Target] != &v.Hidden {
				lists[m.Target] = &v.ReadOnly
			}
			continue
		default:
			continue
		}
		order = slices.DeleteFunc(order, func(path string) bool {
			covered := paths.Inside(path, m.Target)
			if covered {
				delete(lists, path)
			}
			return covered
		})
		order, lists[m.Target] = append(order, m.Target), to
	}
	slices.Sort(order)
	for _, path := range order {
		list := lists[path]
		*list = append(*list, path)
	}
}

// environment compares the command's variables with this program's.
func (v *View) environment(ours, theirs []string) {
	names := func(env []string) map[string]string {
		m := make(map[string]string, len(env))
		for _, kv := range env {
			name, value, _ := strings.Cut(kv, "=")
			m[name] = value
		}
		return m
	}
	before, after := names(ours), names(theirs)
	for name := range before {
		if _, ok := after[name]; !ok {
			v.Removed = append(v.Removed, name)
		}
	}
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			v.Set = append(v.Set, name)
		}
	}
	slices.Sort(v.Removed)
	slices.Sort(v.Set)
}
