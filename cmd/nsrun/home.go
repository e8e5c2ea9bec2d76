//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
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
	Examples: `nsrun home show
nsrun home keep ~/.config/tool`,
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
		return homeVerb.Help()
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
	homes, err := homesOf(&o)
	if err != nil {
		return console.Fail(err)
	}
	switch do {
	case "reset":
		return resetHomes(homes)
	case "keep":
		return keepHome(homes, rest, &o)
	}
	return showHomes(homes, &o)
}

// A layerOf is the layer of a project for a home directory.
type layerOf struct {
	layer, home string // home has no symbolic links
	other       bool   // it is /etc/passwd's, and $HOME is another one
}

// path is how output names a path below the home directory.
func (l *layerOf) path(name string) string {
	if l.other {
		return l.home + "/" + name // which can end with a slash
	}
	return name
}

func (l *layerOf) text(name string) string {
	if l.other {
		return escape.Quote(l.path(name))
	}
	return "~/" + escape.Quote(name)
}

func homesOf(o *homeOptions) (list []layerOf, err error) {
	named := host.Home()
	if named == "" {
		return nil, advice.With(errors.New("find home directory: neither /etc/passwd nor HOME has one"), "try: export HOME=DIR")
	}
	home, _, err := host.HomeAt(named)
	if err != nil {
		return nil, err
	}
	project := ""
	if o.project != "" {
		if project, err = fromHere(o.project); err == nil {
			project, err = trustedDir(project)
		}
	} else {
		var wd string
		if wd, err = workDir(); err == nil {
			project, err = projectAround(wd)
		}
	}
	if err != nil {
		return nil, err
	}
	return layersOf(home, project)
}

// layersOf returns the layers of a project.
func layersOf(home, project string) (list []layerOf, err error) {
	list = []layerOf{{home: home}}
	if at, _ := host.OtherHome(home); at != "" {
		list = append(list, layerOf{home: at, other: true})
	}
	for i := range list {
		if err == nil {
			list[i].layer, err = host.HomeLayer(list[i].home, project)
		}
	}
	return list, err
}

// tellHome says what commands wrote below the home directory, outside caches, once for each path. It ignores errors,
// because nothing depends on it.
func (r *runner) tellHome(project string) {
	home, _, err := host.HomeAt(host.Home())
	if err != nil || r.o.quiet {
		return
	}
	layers, _ := layersOf(home, project)
	caches, _ := host.CachePaths(home, r.o.caches)
	caches = host.CacheNames(caches)
	var names []string
	for i := range layers {
		list, _ := homelayer.News(layers[i].layer, layers[i].home, caches)
		for _, name := range list {
			names = append(names, layers[i].text(name))
		}
	}
	const most, width = 2, 60
	for i, name := range names {
		if text := []rune(name); len(text) > width {
			names[i] = string(text[:width-1]) + "…"
		}
	}
	if n := len(names); n > most+1 {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	if len(names) > 0 {
		console.Say("kept apart below the home directory: %s (nsrun home show)", strings.Join(names, ", "))
	}
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
	Path string `json:"path"` // below the home directory, or absolute in another one; with a slash at the end, a new directory with all that is in it
	Size int64  `json:"size"`
}

const noHomeLayer = "no command has written below the home directory"

var homeKinds = map[homelayer.Kind]string{homelayer.Added: "added", homelayer.Modified: "modified", homelayer.Deleted: "deleted"}

func showHomes(homes []layerOf, o *homeOptions) int {
	r := homeReport{Layer: homes[0].layer, Changes: []homeChange{}}
	some := false
	for i := range homes {
		in, err := homelayer.Look(homes[i].layer)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			some = true
			err = showHome(&homes[i], &in, &r, o)
		}
		if err != nil {
			return console.Fail(err)
		}
	}
	switch {
	case o.json:
		return console.PrintJSON(r)
	case !some:
		console.Say("%s", noHomeLayer)
		return 0
	}
	console.Say("home layer of %s: %s", escape.Quote(r.Project), console.Size(r.Bytes))
	if r.Pending > 0 {
		console.Say("%s ended while others used it, and %s not listed yet", console.Plural(r.Pending, "command"), map[bool]string{true: "is", false: "are"}[r.Pending == 1])
	}
	return 0
}

// showHome adds a layer to the report, or prints what is in it.
func showHome(l *layerOf, in *homelayer.Info, r *homeReport, o *homeOptions) error {
	r.Project, r.Bytes, r.Pending = in.Project, r.Bytes+in.Size(), r.Pending+in.Pending
	caches := host.CacheNames(nil)
	whole := func(name string) bool {
		return !o.files && (name != ".cache" && slices.Contains(caches, name) || filepath.Dir(name) == ".cache")
	}
	for c, err := range homelayer.Changes(l.layer, l.home, whole) {
		if err != nil {
			return err
		}
		if o.json {
			r.Changes = append(r.Changes, homeChange{homeKinds[c.Kind], l.path(c.Path), c.Size})
			continue
		}
		size := ""
		if c.Kind != homelayer.Deleted {
			size = "  " + console.Size(c.Size)
		}
		if _, err := fmt.Printf("%c %s%s\n", c.Kind, l.text(c.Path), size); err != nil {
			return err
		}
	}
	return nil
}

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
			status = max(status, resetHomes([]layerOf{{layer: in.Path}}))
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

func resetHomes(homes []layerOf) int {
	status, some := 0, false
	for _, l := range homes {
		in, err := homelayer.Look(l.layer)
		what := "the home layer of " + escape.Quote(in.Project) + ": " + console.Size(in.Size())
		if err != nil { // damaged, or there is none
			what = "the home layer"
		}
		err = homelayer.Remove(l.layer)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if some = true; err != nil {
			status = console.Fail(err)
			continue
		}
		console.Say("removed %s", what)
	}
	if !some {
		console.Say("%s", noHomeLayer)
	}
	return status
}

// keepHome copies paths from the layers into the home directories.
func keepHome(homes []layerOf, paths []string, o *homeOptions) int {
	status := 0
	for _, path := range paths {
		l, name, err := belowHome(path, homes)
		var list []homelayer.Kept
		if err == nil {
			live := host.NewLive([]host.Place{{Dir: filepath.Join(l.layer, "upper"), Folder: l.home}})
			k := homelayer.KeepOptions{Replace: o.replace}
			if !o.allowExec {
				k.Held = func(name string) string { return live.Reason(l.home, name, false) }
			}
			list, err = homelayer.Keep(l.layer, l.home, name, k)
		}
		if err != nil {
			status = console.Fail(err)
			continue
		}
		for _, one := range list {
			switch {
			case one.Err != nil:
				status = console.Fail(fmt.Errorf("keep %s: %w", l.text(one.Path), one.Err))
			case one.Held != "":
				status = console.ExitFailed
				console.Say("held back: %s (%s); name it, or use --allow-exec, to keep it", l.text(one.Path), one.Held)
			case one.Link != "":
				console.Say("kept %s, a symbolic link to %s", l.text(one.Path), escape.Quote(one.Link))
			case one.Old != "":
				console.Say("kept %s; what it replaced is %s", l.text(one.Path), escape.Quote(one.Old))
			}
		}
	}
	return status
}

// belowHome returns the part of a path below a home directory; $HOME may be given through a symbolic link. It refuses
// nsrun's own directories.
func belowHome(path string, homes []layerOf) (l *layerOf, name string, err error) {
	abs, err := fromHere(path)
	if err != nil {
		return nil, "", err
	}
	if rest, ok := strings.CutPrefix(abs, filepath.Clean(host.Home())+"/"); ok {
		abs = filepath.Join(homes[0].home, rest)
	}
	for i := range homes {
		rest, ok := strings.CutPrefix(abs, homes[i].home+"/")
		if ok && rest != "" && (l == nil || len(homes[i].home) > len(l.home)) {
			l, name = &homes[i], rest
		}
	}
	if l == nil {
		return nil, "", fmt.Errorf("keep %s: it is not below the home directory", escape.Quote(path))
	}
	state, err := host.HomeLayers()
	if err != nil {
		return nil, "", err
	}
	dirs := append(host.OtherOwn(l.home), filepath.Dir(state), host.DataDir(homes[0].home), host.CacheDir(homes[0].home))
	for _, own := range dirs {
		if at := filepath.Join(l.home, name); paths.Inside(at, own) || paths.Inside(own, at) {
			return nil, "", fmt.Errorf("keep %s: %s is nsrun's own", escape.Quote(path), escape.Quote(own))
		}
	}
	return l, name, nil
}
