//go:build linux

package nsrun

import (
	"cmp"
	"errors"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// homeUse is a command's use of the layer of its home directory. The zero homeUse is none.
type homeUse struct {
	layer    *homelayer.Layer
	at       string // the home directory
	alone    bool   // without what other commands wrote
	repaired bool   // once is enough
}

// keepsHome reports whether what commands write to the home directory is to be kept.
func (c *Config) keepsHome() bool { return c.Home == HomeLayer && !c.small() }

// addHomeLayer adds the layer of the home directory to the facts, where there is to be one: that of the project, or of the
// first of its folders.
func (x *Execution) addHomeLayer(f *plan.Facts, folders []string) error {
	x.homeNotice = ""
	if !x.runner.config.keepsHome() || x.runner.landlock() { // without namespaces there is none, as the backend's notice says
		return nil
	}
	why := x.runner.homeRefused()
	if why == "" && f.Table == nil {
		var err error
		if f.Table, err = mounts.ReadMountinfo(); err != nil {
			return err
		}
	}
	takes := why == ""
	if takes {
		takes, why = f.TakesLayer()
	}
	if takes {
		project := f.Folders.Project
		if project == "" && len(folders) > 0 {
			project = folders[0]
		}
		why = x.takeHome(f, project)
	}
	if why != "" {
		x.homeNotice = "no home layer: " + why
	}
	return nil
}

// takeHome begins the use of the layer. It returns why that cannot be, in words.
func (x *Execution) takeHome(f *plan.Facts, project string) (why string) {
	if x.explain {
		f.Layer = &plan.HomeLayer{Upper: "/LAYER/upper", Work: "/LAYER/work"}
		return ""
	}
	if x.home.layer != nil {
		if err := x.home.layer.Again(); err != nil {
			return err.Error()
		}
	} else {
		path, err := host.HomeLayer(f.HomeAt, project)
		if err == nil {
			l := x.runner.config.limits(&x.request)
			x.home.layer, err = homelayer.Take(path, cmp.Or(project, f.HomeAt), f.HomeAt, f.HomePerm, l.Disk > 0 || l.Inodes > 0 || x.runner.apart)
		}
		if err != nil {
			return err.Error()
		}
		if x.runner.apart {
			x.home.layer.Discard()
		}
		x.home.at = f.HomeAt
	}
	l := x.home.layer
	f.Layer = &plan.HomeLayer{Upper: l.Upper(), Work: l.Work(), Lower: l.Lower()}
	if x.home.alone {
		f.Layer.Lower = nil
	}
	return ""
}

// mendHome reports whether err can come of what commands before this one left in the home layer, and has mended it, once:
// something else is where a directory is needed to mount in.
func (x *Execution) mendHome(err error) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok || e.Mount == 0 || x.home.layer == nil || x.home.repaired {
		return false
	}
	if target := x.cmd.Mounts[e.Mount-1].Target; target == x.home.at || !paths.Inside(target, x.home.at) {
		return false
	}
	x.home.repaired = true
	x.home.alone = len(x.home.layer.Lower()) > 0 // it may be there, which others use
	var dirs, files []string
	for _, m := range x.cmd.Mounts {
		switch {
		case m.Target == x.home.at || !paths.Inside(m.Target, x.home.at):
		case m.Kind == mounts.KindData, m.Kind == mounts.KindBind && !host.IsDir(m.Source):
			files = append(files, m.Target[len(x.home.at)+1:])
		default:
			dirs = append(dirs, m.Target[len(x.home.at)+1:])
		}
	}
	removed := x.home.layer.Clear(dirs, files)
	for _, name := range removed {
		x.result.note(NoticeHome, "removed from the home layer, for something is mounted there: ~/"+escape.Quote(name))
	}
	return x.home.alone || len(removed) > 0
}

// refuseHome reports whether err says that the home directory cannot be shown with its layer; from then on it is done without.
func (r *Runner) refuseHome(x *Execution, err error) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok || e.Op != nsexec.StepOverlay || e.Mount == 0 || x.home.layer == nil {
		return false
	}
	if m := x.cmd.Mounts[e.Mount-1]; m.Upper != x.home.layer.Upper() {
		return false
	}
	r.mu.Lock()
	r.noHomeLayer = "an overlay cannot be laid over the home directory: " + e.Err.Error()
	r.mu.Unlock()
	x.releaseHome()
	return true
}

func (r *Runner) homeRefused() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noHomeLayer
}

// releaseHome ends the use of the layer. Nothing of the command runs any more.
func (x *Execution) releaseHome() {
	l := x.home.layer
	if l == nil {
		return
	}
	x.home.layer = nil
	limit := cmp.Or(x.runner.config.HomeSize, DefaultHomeSize)
	removed, err := l.Bound(limit, host.CacheNames(x.runner.config.caches()), x.wroteMuch())
	for _, name := range removed {
		what := "the caches in ~/" + escape.Quote(name)
		if name == "" {
			what = "all of it"
		}
		x.result.note(NoticeHome, "the home layer was larger than "+FormatSize(limit)+": "+what+" was removed")
	}
	x.note(NoticeHome, err)
	x.note(NoticeHome, l.Release())
}

// wroteMuch reports whether the command wrote so much that its layer has to be measured now.
func (x *Execution) wroteMuch() bool {
	const much = 256 << 20
	if x.cmd == nil || x.cmd.ProcessState == nil {
		return false
	}
	usage, ok := x.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return ok && usage.Oublock > much/512
}

// homeTells adds the notice that there is no layer.
func (x *Execution) homeTells() {
	if x.homeNotice != "" && !slices.ContainsFunc(x.notices, func(n Notice) bool { return n.Kind == NoticeHome }) {
		x.notices = append(x.notices, Notice{Kind: NoticeHome, Text: x.homeNotice})
	}
}
