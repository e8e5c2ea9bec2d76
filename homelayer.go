//go:build linux

package nsrun

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// homeUse is a command's use of a home layer. The zero homeUse is none.
type homeUse struct {
	layer    *homelayer.Layer
	at       string // the home directory
	alone    bool   // without what other commands wrote
	repaired bool   // once is enough
}

// keepsHome reports whether what commands write to the home directory is to be kept.
func (c *Config) keepsHome() bool { return c.Home == HomeLayer && !c.small() }

// addHomeLayer adds the home layers to the facts, if there are to be some: those of the project, or of the first
// folder.
func (x *Execution) addHomeLayer(f *plan.Facts, folders []string) error {
	x.homeNotice = ""
	if !x.runner.config.keepsHome() || x.landlock { // without namespaces there is none, as the backend's notice says
		return nil
	}
	if f.Table == nil {
		var err error
		if f.Table, err = mounts.ReadMountinfo(); err != nil {
			return err
		}
	}
	project := f.Folders.Project
	if project == "" && len(folders) > 0 {
		project = folders[0]
	}
	x.homes[0].at = f.HomeAt
	f.Other.At, f.Other.Perm = host.OtherHome(f.HomeAt)
	x.homes[1].at = f.Other.At
	var why string
	if f.Layer, why = x.takeHome(f, 0, f.HomePerm, project); why != "" {
		x.homeNotice = "no home layer: " + why
	}
	f.Other.Layer, _ = x.takeHome(f, 1, f.Other.Perm, project) // few programs write there
	return nil
}

// takeHome begins the use of a home layer. If that is impossible, why says why, in words.
func (x *Execution) takeHome(f *plan.Facts, which int, perm os.FileMode, project string) (layer *plan.HomeLayer, why string) {
	u := &x.homes[which]
	if why = x.runner.homeRefused(which); why != "" {
		return nil, why
	}
	if takes, why := f.TakesLayer(u.at); !takes {
		return nil, why
	}
	if x.explain {
		name := [...]string{"/LAYER", "/LAYER2"}[which]
		return &plan.HomeLayer{Upper: name + "/upper", Work: name + "/work"}, ""
	}
	if u.layer != nil {
		if err := u.layer.Again(); err != nil {
			return nil, err.Error()
		}
	} else {
		x.runner.clearings.awaitLeft(x.ctx) // else the layer of the command before this one is still in use
		path, err := host.HomeLayer(u.at, project)
		if err == nil {
			l := x.runner.config.limits(&x.request)
			u.layer, err = homelayer.Take(path, cmp.Or(project, u.at), u.at, perm, l.Disk > 0 || l.Inodes > 0 || x.runner.apart)
		}
		switch {
		case errors.Is(err, homelayer.ErrUnfit):
			return nil, homedir.OnAnother(err, "XDG_STATE_HOME").Error()
		case features.Refused(err) != nil:
			return nil, features.WithRefused(err).Error()
		case err != nil:
			return nil, homedir.Elsewhere(err, "XDG_STATE_HOME").Error()
		}
		if u.layer.Restarted() {
			x.result.note(NoticeHome, noticeRestarted)
		}
		if x.runner.apart {
			u.layer.Discard()
		}
	}
	l := u.layer
	layer = &plan.HomeLayer{Upper: l.Upper(), Work: l.Work(), Lower: l.Lower()}
	if u.alone {
		layer.Lower = nil
	}
	return layer, ""
}

// mendHome reports whether err may be caused by something that earlier commands left in the home layer, in the place of
// a directory that is needed as a mount point, and whether it was removed. It does so once.
func (x *Execution) mendHome(err error) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok || e.Mount == 0 {
		return false
	}
	mended := false
	for i := range x.homes {
		u := &x.homes[i]
		if target := x.cmd.Mounts[e.Mount-1].Target; u.layer == nil || u.repaired || target == u.at || !paths.Inside(target, u.at) {
			continue
		}
		u.repaired = true
		u.alone = len(u.layer.Lower()) > 0 // it may be there, which others use
		var dirs, files []string
		for _, m := range x.cmd.Mounts {
			switch {
			case m.Target == u.at || !paths.Inside(m.Target, u.at):
			case m.Kind == mounts.KindData, m.Kind == mounts.KindBind && !host.IsDir(m.Source):
				files = append(files, m.Target[len(u.at)+1:])
			default:
				dirs = append(dirs, m.Target[len(u.at)+1:])
			}
		}
		removed := u.layer.Clear(dirs, files)
		for _, name := range removed {
			x.result.note(NoticeHome, "removed from the home layer, because something is mounted there: "+x.homeName(i, name))
		}
		mended = mended || u.alone || len(removed) > 0
	}
	return mended
}

// noticeRestarted tells of a possible power failure: nobody waits until a home layer is on disk.
const noticeRestarted = "the machine was restarted soon after commands wrote to the home layer: if it lost its power, files there " +
	"may be cut off; nsrun home reset removes them"

// homeName is how messages name a path below one of the home directories.
func (x *Execution) homeName(which int, name string) string {
	if which == 0 {
		return "~/" + escape.Quote(name)
	}
	return escape.Quote(filepath.Join(x.homes[which].at, name))
}

const noHomeOverlay = "an overlay cannot be laid over the home directory: "

// refuseHome reports whether err says that a home directory cannot be shown with its layer; the Runner then uses no
// layer.
func (r *Runner) refuseHome(x *Execution, err error) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok || e.Op != nsexec.StepOverlay || e.Mount == 0 {
		return false
	}
	why := e.Err
	if err := features.Get(features.Overlay).Err(); errors.Is(err, errors.ErrUnsupported) {
		why = err
	}
	for i := range x.homes {
		if l := x.homes[i].layer; l != nil && x.cmd.Mounts[e.Mount-1].Upper == l.Upper() {
			r.mu.Lock()
			r.noHomeLayer[i] = noHomeOverlay + features.WithRefused(why).Error()
			r.mu.Unlock()
			x.note(NoticeHome, x.boundHome(i).Release())
			return true
		}
	}
	return false
}

func (r *Runner) homeRefused(which int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noHomeLayer[which]
}

// releaseHomes ends the use of the layers. No process of the command runs any more. The next command has a layer only
// when it is unmounted, so that is waited for in the background.
func (x *Execution) releaseHomes() {
	var layers []*homelayer.Layer
	for i := range x.homes {
		if l := x.boundHome(i); l != nil {
			layers = append(layers, l)
		}
	}
	if x.unmounted == nil {
		// If the command was not started, the reason is told. The next command does what is left to be done.
		if err := release(layers); x.result.Started {
			x.note(NoticeHome, err)
		}
		return
	}
	x.runner.clearings.leave(func() error {
		<-x.unmounted
		return release(layers)
	})
}

func release(layers []*homelayer.Layer) (err error) {
	for _, l := range layers {
		err = errors.Join(err, l.Release())
	}
	return err
}

// boundHome holds one of the layers to its size, and returns it. Nil: there is none.
func (x *Execution) boundHome(which int) *homelayer.Layer {
	l := x.homes[which].layer
	if l == nil {
		return nil
	}
	x.homes[which].layer = nil
	limit := cmp.Or(x.runner.config.HomeSize, DefaultHomeSize)
	removed, err := l.Bound(limit, host.CacheNames(x.runner.config.caches()), x.wroteMuch())
	for _, name := range removed {
		what := "the caches in " + x.homeName(which, name)
		if name == "" {
			what = "all of it"
		}
		x.result.note(NoticeHome, "the home layer was larger than "+FormatSize(limit)+": "+what+" was removed")
	}
	x.note(NoticeHome, err)
	return l
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
