//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
)

var homeVerb = usage.Verb{
	Name: "home", Args: "show|reset|keep [flags] [PATH…]",
	Short: "show, remove or keep what commands wrote below the home directory",
	Long: `What commands write below the home directory, outside the project, goes to the project's
home layer. The project's next commands see it, and nobody else does. show lists what is
in the layer (A: new, M: changed, D: deleted; each cache is one line). reset removes the
layer. keep copies PATH from the layer into the home directory; it follows no symbolic
link. It copies files that run later by themselves (startup files, hooks, settings of
editors), and links that lead out of PATH, only if PATH is that very file, or with
--allow-exec. nsrun gc removes a layer that no command has used for 30 days.`,
	Flags: func(fs *flag.FlagSet) { homeFlags(fs, &homeOptions{}) },
}

type homeOptions struct {
	project            string
	json, all, files   bool
	replace, allowExec bool
}

func homeFlags(fs *flag.FlagSet, o *homeOptions) {
	fs.StringVar(&o.project, "project", "", "the project's root `directory` (default: the git work tree, else the current directory)")
	fs.BoolVar(&o.all, "all", false, "with show: list the layers of all projects; with reset: remove them")
	fs.BoolVar(&o.files, "files", false, "with show: also list the files in caches")
	fs.BoolVar(&o.replace, "replace", false, "with keep: replace files of the home directory")
	fs.BoolVar(&o.allowExec, "allow-exec", false, "with keep: also keep files that run later, and links that lead elsewhere")
	jsonFlag(fs, &o.json)
}

func cmdHome(args []string) int {
	do := ""
	if len(args) > 0 {
		do, args = args[0], args[1:]
	}
	switch do {
	case "show", "reset", "keep":
	case "-h", "-help", "--help":
		homeVerb.Help()
		return 0
	default:
		return homeVerb.Fail(usage.Errorf("home", "show, reset or keep?"))
	}
	var o homeOptions
	rest, status, ok := homeVerb.Parse(args, func(fs *flag.FlagSet) { homeFlags(fs, &o) })
	switch {
	case !ok:
		return status
	case do == "keep" && len(rest) == 0:
		return homeVerb.Fail(usage.Errorf("home", "keep takes paths"))
	case do != "keep" && len(rest) > 0:
		return homeVerb.Fail(usage.Errorf("home", "%s takes no paths", do))
	case do == "keep" && o.all, do != "keep" && (o.replace || o.allowExec), (o.json || o.files) && do != "show", o.all && (o.project != "" || o.files):
		return homeVerb.Fail(usage.Errorf("home", "this flag is not for %s", do))
	case o.all:
		return allHomes(do, &o)
	}
	layer, home, err := homeOf(&o)
	if err != nil {
		return console.Fail(err)
	}
	switch do {
	case "reset":
		return resetHome(layer)
	case "keep":
		return keepHome(layer, home, rest, &o)
	}
	return showHome(layer, home, &o)
}

// homeOf is the layer that is meant, and the home directory, without symbolic links.
func homeOf(o *homeOptions) (layer, home string, err error) {
	if home, _, err = host.HomeAt(host.Home()); err != nil {
		return "", "", err
	}
	project := ""
	if o.project != "" {
		if project, err = fromHere(o.project); err == nil {
			project, err = trusted(project)
		}
	} else {
		var wd string
		if wd, err = os.Getwd(); err == nil {
			project, err = projectAround(wd)
		}
	}
	if err == nil {
		layer, err = host.HomeLayer(home, project)
	}
	return layer, home, err
}

// homeReport is what `home show --json` prints. The keys are stable.
type homeReport struct {
	Layer   string       `json:"layer"`
	Project string       `json:"project"`
	Bytes   int64        `json:"bytes"`
	Pending int          `json:"pending"` // commands that ended while others used the layer: what they wrote is not listed yet
	Changes []homeChange `json:"changes"`
}

type homeChange struct {
	Kind string `json:"kind"` // added, modified, deleted
	Path string `json:"path"` // below the home directory; with a slash at the end, a new directory with all that is in it
	Size int64  `json:"size"`
}

const noHomeLayer = "no command has written below the home directory"

var homeKinds = map[homelayer.Kind]string{homelayer.Added: "added", homelayer.Modified: "modified", homelayer.Deleted: "deleted"}

func showHome(layer, home string, o *homeOptions) int {
	in, err := homelayer.Look(layer)
	if errors.Is(err, fs.ErrNotExist) {
		if o.json {
			return console.PrintJSON(homeReport{Layer: layer, Changes: []homeChange{}})
		}
		console.Say("%s", noHomeLayer)
		return 0
	}
	if err != nil {
		return console.Fail(err)
	}
	r := homeReport{Layer: layer, Project: in.Project, Bytes: in.Size(), Pending: in.Pending, Changes: []homeChange{}}
	caches := host.CacheNames(nil)
	whole := func(name string) bool {
		return !o.files && (name != ".cache" && slices.Contains(caches, name) || filepath.Dir(name) == ".cache")
	}
	for c, err := range homelayer.Changes(layer, home, whole) {
		if err != nil {
			return console.Fail(err)
		}
		if o.json {
			r.Changes = append(r.Changes, homeChange{homeKinds[c.Kind], c.Path, c.Size})
			continue
		}
		size := ""
		if c.Kind != homelayer.Deleted {
			size = "  " + console.Size(c.Size)
		}
		if _, err := fmt.Printf("%c ~/%s%s\n", c.Kind, escape.Quote(c.Path), size); err != nil {
			return console.Fail(err)
		}
	}
	if o.json {
		return console.PrintJSON(r)
	}
	console.Say("home layer of %s: %s", escape.Quote(in.Project), console.Size(r.Bytes))
	if in.Pending > 0 {
		console.Say("%s ended while others used it, and %s not listed yet", console.Plural(in.Pending, "command"), map[bool]string{true: "is", false: "are"}[in.Pending == 1])
	}
	return 0
}

// allHomes lists or removes all layers.
func allHomes(do string, o *homeOptions) int {
	dir, err := host.HomeLayers()
	if err != nil {
		return console.Fail(err)
	}
	list, err := homelayer.List(dir)
	if err != nil {
		return console.Fail(err)
	}
	status, reports := 0, []homeReport{}
	for _, in := range list {
		switch {
		case do == "reset":
			status = max(status, resetHome(in.Path))
		case o.json:
			reports = append(reports, homeReport{Layer: in.Path, Project: in.Project, Bytes: in.Size(), Pending: in.Pending, Changes: []homeChange{}})
		default:
			if _, err := fmt.Printf("%s  %s, used %s\n", escape.Quote(in.Project), console.Size(in.Size()), console.Ago(in.Used)); err != nil {
				return console.Fail(err)
			}
		}
	}
	if o.json {
		return console.PrintJSON(reports)
	}
	return status
}

func resetHome(layer string) int {
	in, err := homelayer.Look(layer)
	what := "the home layer of " + escape.Quote(in.Project) + ": " + console.Size(in.Size())
	if err != nil { // damaged, or there is none
		what = "the home layer"
	}
	err = homelayer.Remove(layer)
	if errors.Is(err, fs.ErrNotExist) {
		console.Say("%s", noHomeLayer)
		return 0
	}
	if err != nil {
		return console.Fail(err)
	}
	console.Say("removed %s", what)
	return 0
}

// keepHome copies paths from the layer into the home directory.
func keepHome(layer, home string, paths []string, o *homeOptions) int {
	status := 0
	live := host.NewLive([]host.Place{{Dir: filepath.Join(layer, "upper"), Folder: home}})
	k := homelayer.KeepOptions{Replace: o.replace}
	if !o.allowExec {
		k.Held = func(name string) string { return live.Reason(home, name, false) }
	}
	for _, path := range paths {
		name, err := belowHome(path, home)
		var list []homelayer.Kept
		if err == nil {
			list, err = homelayer.Keep(layer, home, name, k)
		}
		if err != nil {
			status = console.Fail(err)
			continue
		}
		for _, one := range list {
			switch {
			case one.Err != nil:
				status = console.Fail(fmt.Errorf("keep ~/%s: %w", escape.Quote(one.Path), one.Err))
			case one.Held != "":
				status = console.ExitFailed
				console.Say("held back: ~/%s (%s); name it, or use --allow-exec, to keep it", escape.Quote(one.Path), one.Held)
			case one.Link != "":
				console.Say("kept ~/%s, a symbolic link to %s", escape.Quote(one.Path), escape.Quote(one.Link))
			case one.Old != "":
				console.Say("kept ~/%s; what it replaced is %s", escape.Quote(one.Path), escape.Quote(one.Old))
			}
		}
	}
	return status
}

// belowHome is the part of a path below the home directory, which may be named through a symbolic link. nsrun's own
// directories are not among them.
func belowHome(path, home string) (string, error) {
	abs, err := fromHere(path)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(abs, home+"/")
	if !ok {
		name, ok = strings.CutPrefix(abs, filepath.Clean(host.Home())+"/")
	}
	if !ok || name == "" {
		return "", fmt.Errorf("keep %s: it is not below the home directory", escape.Quote(path))
	}
	state, err := host.HomeLayers()
	if err != nil {
		return "", err
	}
	for _, own := range []string{filepath.Dir(state), host.DataDir(home), host.CacheDir(home)} {
		if at := filepath.Join(home, name); inside(at, own) || inside(own, at) {
			return "", fmt.Errorf("keep %s: %s is nsrun's own", escape.Quote(path), escape.Quote(own))
		}
	}
	return name, nil
}
